#include "propagator/serve/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <thread>

#include "propagator/core/stopwatch.h"
#include "testing.h"

namespace propagator::serve {
namespace {

using namespace std::chrono_literals;

// Answers with what it was asked, late if it is asked at /slow.
class Echo : public Handler {
 public:
  ~Echo() override {
    for (auto& thread : threads_) thread.join();
  }
  void admit(const RequestHead& head) const override {
    if (head.target == "/forbidden") throw Refused(403, "forbidden");
  }
  void answer(Request request, Reply reply) override {
    const auto work = [request, reply] {
      if (request.head.target == "/slow") std::this_thread::sleep_for(300ms);
      reply({.content_type = "text/plain",
             .body = request.head.method + " " + request.body});
    };
    const std::lock_guard lock(mutex_);
    threads_.emplace_back(work);
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

// A client that says exactly what it is told to, and reads what comes.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* address = reinterpret_cast<const sockaddr*>(&place);
    connected_ = ::connect(socket_, address, sizeof place) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void say(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Up to the end of the connection, or until `text` has come.
  std::string hear(const std::string& text = "\001") {
    std::string heard;
    char part[4096];
    while (heard.find(text) == std::string::npos) {
      pollfd waiting{socket_, POLLIN, 0};
      if (poll(&waiting, 1, 10000) <= 0) return heard + "<nothing for 10 s>";
      const auto got = ::recv(socket_, part, sizeof part, 0);
      if (got <= 0) return heard;
      heard.append(part, static_cast<size_t>(got));
    }
    return heard;
  }

 private:
  int socket_;
  bool connected_;
};

class ServeHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_http()) GTEST_SKIP() << "built without Boost";
  }
  HttpServer& server(const HttpLimits& limits = {}) {
    if (!server_) server_.emplace("127.0.0.1", 0, limits, echo_, metrics_);
    return *server_;
  }
  // What it says to these bytes, up to the end of the connection.
  std::string answer(const std::string& bytes, const HttpLimits& limits = {}) {
    Client client(server(limits).port());
    client.say(bytes);
    return client.hear();
  }
  static void expect(const std::string& heard, const std::string& part) {
    EXPECT_NE(heard.find(part), std::string::npos) << heard;
  }

  Echo echo_;
  Metrics metrics_;
  std::optional<HttpServer> server_;
};

constexpr const char* kLast = "Connection: close\r\n";

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

std::string post(const std::string& target, const std::string& body,
                 const std::string& more = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

TEST_F(ServeHttp, AnswersOneRequestAfterTheOther) {
  const auto heard =
      answer(post("/a", "one") + get("/b") + post("/slow", "three", kLast));
  expect(heard, "HTTP/1.1 200 OK");
  expect(heard, "POST one");
  EXPECT_LT(heard.find("POST one"), heard.find("GET "));
  EXPECT_LT(heard.find("GET "), heard.find("POST three"));
  expect(heard, "X-Content-Type-Options: nosniff");
}

TEST_F(ServeHttp, TellsAClientToGoOnThatWaitsForIt) {
  Client client(server().port());
  client.say(
      "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
      "Expect: 100-continue\r\nConnection: close\r\n\r\n");
  expect(client.hear("\r\n\r\n"), "HTTP/1.1 100 Continue");
  client.say("body");
  expect(client.hear(), "POST body");
}

TEST_F(ServeHttp, RefusesBeforeItReadsABody) {
  const auto heard = answer(
      "POST /forbidden HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 1000000\r\n\r\n");
  expect(heard, "HTTP/1.1 403");
  expect(heard, "Connection: close");
}

TEST_F(ServeHttp, RefusesWhatItCannotRead) {
  expect(answer("nonsense\r\n\r\n"), "HTTP/1.1 400");
  expect(answer("GET / HTTP/1.1\r\nbad header\r\n\r\n"), "HTTP/1.1 400");
  expect(answer("GET / HTTP/9.9\r\n\r\n"), "HTTP/1.1 400");
  expect(answer(std::string("\0\1\2\3\r\n\r\n", 8)), "HTTP/1.1 400");
  expect(answer("POST /a HTTP/1.1\r\nContent-Length: -5\r\n\r\n"),
         "HTTP/1.1 400");
  expect(answer("POST /a HTTP/1.1\r\nContent-Length: 1\r\n"
                "Content-Length: 2\r\n\r\nxx"),
         "HTTP/1.1 400");
  expect(answer("POST /a HTTP/1.1\r\nHost: localhost\r\n"
                "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
         "HTTP/1.1 411");
  expect(answer(post("/a", "xx", "Content-Encoding: gzip\r\n")),
         "HTTP/1.1 415");
}

TEST_F(ServeHttp, HasLimits) {
  const HttpLimits limits{.header_bytes = 1024, .body_bytes = 100};
  expect(answer(get("/", "X: " + std::string(2000, 'x') + "\r\n"), limits),
         "HTTP/1.1 431");
  expect(answer("GET /" + std::string(2000, 'x') + " HTTP/1.1\r\n\r\n"),
         "HTTP/1.1 431");
  expect(answer(post("/a", std::string(101, 'x'))), "HTTP/1.1 413");
  expect(answer("POST /a HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 99999999999999999999\r\n\r\n"),
         "HTTP/1.1 4");
  expect(answer(post("/a", std::string(100, 'x'), kLast)), "HTTP/1.1 200");
}

TEST_F(ServeHttp, WaitsForARequestNoLongerThanItsLimit) {
  const HttpLimits limits{.seconds = 0.3};
  const Stopwatch clock;
  expect(answer("GET / HTTP/1.1\r\nHost: lo", limits), "HTTP/1.1 408");
  expect(answer("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                "\r\nabc"),
         "HTTP/1.1 408");
  EXPECT_EQ(answer(""), "");  // nothing came: there is nothing to answer
  EXPECT_LT(clock.seconds(), 5);
}

// Byte by byte, each well within the limit: it is for the whole request.
TEST_F(ServeHttp, IsNotKeptByAClientThatTrickles) {
  Client client(server({.seconds = 0.3}).port());
  const Stopwatch clock;
  client.say("GET / HTTP/1.1\r\nX: ");
  while (clock.seconds() < 1) {
    client.say("x");
    std::this_thread::sleep_for(50ms);
  }
  expect(client.hear(), "HTTP/1.1 408");
}

TEST_F(ServeHttp, SendsAwayConnectionsThatAreTooMany) {
  const HttpLimits limits{.connections = 2};
  Client first(server(limits).port()), second(server().port());
  first.say(get("/"));
  second.say(get("/"));
  expect(first.hear("GET "), "200 OK");
  expect(second.hear("GET "), "200 OK");
  const auto heard = answer(get("/"));
  expect(heard, "HTTP/1.1 503");
  expect(heard, "Retry-After: 1");
}

TEST_F(ServeHttp, HoldsNoMoreLargeBodiesThanItsLimit) {
  const HttpLimits limits{.body_bytes = 8 << 20, .large_bodies_bytes = 3 << 20};
  Client slow(server(limits).port());
  slow.say(
      "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2097152\r\n"
      "Expect: 100-continue\r\n\r\n");
  slow.hear("\r\n\r\n");
  const std::string large(2 << 20, 'x');
  expect(answer(post("/a", large, kLast)), "HTTP/1.1 503");
  expect(answer(post("/a", "small", kLast)), "HTTP/1.1 200");
  slow.say(large);
  expect(slow.hear("xxx"), "HTTP/1.1 200");
  expect(answer(post("/a", large, kLast)), "HTTP/1.1 200");
}

TEST_F(ServeHttp, SurvivesClientsThatGoAway) {
  for (int n = 0; n < 50; ++n) {
    Client client(server().port());
    client.say(n % 2 == 0 ? post("/slow", "x") : "POST /a HTTP/1.1\r\nConte");
  }
  expect(answer(get("/", kLast)), "200 OK");
}

TEST_F(ServeHttp, AnswersWhatHasComeBeforeItStops) {
  Client idle(server().port()), busy(server().port());
  idle.say(get("/"));
  idle.hear("GET ");
  busy.say(post("/slow", "late"));
  std::this_thread::sleep_for(100ms);
  server().stop();
  expect(busy.hear(), "POST late");
  EXPECT_EQ(idle.hear(), "");
  EXPECT_FALSE(Client(server().port()).connected());
}

TEST_F(ServeHttp, SaysWhyItCannotListen) {
  const auto message = [&](const std::string& address, uint16_t port) {
    return testing::thrown<UsageError>(
        [&] { HttpServer(address, port, {}, echo_, metrics_); });
  };
  expect(message("127.0.0.1", server().port()), "Address already in use");
  expect(message("192.0.2.1", 0), "192.0.2.1");
}

}  // namespace
}  // namespace propagator::serve
