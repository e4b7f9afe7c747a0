// What a request over HTTP costs beside the model's own time: one case, asked
// for in binary on the loopback address, and the same call in this process, by
// turns; then requests a second of several clients at once. One thread
// computes, as `propagator serve --threads 1` does: a model of more of them has
// another thread woken for each request.
//
//   propagator_serve_cost RUN [REQUESTS] [--out FILE]

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "cost.h"
#include "propagator/serve/server.h"

namespace {

using namespace propagator;

constexpr int kTurns = 20;
constexpr int kClients = 4;

// A connection that asks one thing again and again.
class Client {
 public:
  Client(uint16_t port, std::string request)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)),
        request_(std::move(request)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    expect(::connect(socket_, reinterpret_cast<const sockaddr*>(&place),
                     sizeof place) == 0,
           "no connection");
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void ask() {
    const auto sent =
        ::send(socket_, request_.data(), request_.size(), MSG_NOSIGNAL);
    expect(sent == std::ssize(request_), "the request was cut");
    heard_.clear();
    size_t body = std::string::npos, length = 0;
    while (body == std::string::npos || heard_.size() < body + length) {
      char part[65536];
      const auto got = ::recv(socket_, part, sizeof part, 0);
      expect(got > 0, "no answer");
      heard_.append(part, static_cast<size_t>(got));
      if (body != std::string::npos) continue;
      body = heard_.find("\r\n\r\n");
      if (body == std::string::npos) continue;
      body += 4;
      constexpr std::string_view kLength = "\r\nContent-Length: ";
      length = std::stoul(heard_.substr(heard_.find(kLength) + kLength.size()));
    }
    expect(heard_.starts_with("HTTP/1.1 200 "), "an error");
  }

 private:
  static void expect(bool good, const char* otherwise) {
    if (!good) throw std::runtime_error(otherwise);
  }

  int socket_;
  std::string request_, heard_;
};

std::string request_for(const tasks::NamedTensors& inputs) {
  nlohmann::json head{{"parameters", {{"binary_data_output", true}}},
                      {"inputs", nlohmann::json::array()}};
  std::string binary;
  for (const auto& [name, values] : inputs) {
    head["inputs"].push_back(
        {{"name", name},
         {"shape", values.sizes().vec()},
         {"datatype", "FP32"},
         {"parameters", {{"binary_data_size", values.nbytes()}}}});
    binary.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  }
  const auto text = head.dump();
  return fmt::format(
      "POST /v2/models/model/infer HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: {}\r\nInference-Header-Content-Length: {}\r\n\r\n{}{}",
      text.size() + binary.size(), text.size(), text, binary);
}

template <class Work>
void time(std::vector<double>& seconds, int count, Work&& work) {
  for (int n = 0; n < count; ++n) seconds.push_back(bench::seconds_of(work));
}

double requests_per_second(uint16_t port, const std::string& request,
                           int count) {
  const Stopwatch clock;
  std::vector<std::thread> threads;
  for (int n = 0; n < kClients; ++n) {
    threads.emplace_back([&] {
      Client client(port, request);
      for (int k = 0; k < count; ++k) client.ask();
    });
  }
  for (auto& thread : threads) thread.join();
  return kClients * count / clock.seconds();
}

nlohmann::json measure(const std::string& folder, int requests) {
  at::set_num_threads(1);
  serve::ServerOptions options{.runs = {"model=" + folder}, .port = 0};
  options.service.batcher.batch = 1;
  options.change = bench::on_cpu().change;
  serve::Server server(options);
  const auto own = run::open(folder, bench::on_cpu());
  const auto inputs = bench::one_case(own.surrogate().inputs());
  const auto request = request_for(inputs);
  Client client(server.port(), request);
  std::vector<double> model, asked, warm;
  const auto apply = [&] { own.apply(inputs); };
  const auto ask = [&] { client.ask(); };
  time(warm, requests / 10, apply);
  time(warm, requests / 10, ask);
  for (int turn = 0; turn < kTurns; ++turn) {
    time(model, requests / kTurns, apply);
    time(asked, requests / kTurns, ask);
  }
  const double alone = bench::quantile(model, 0.5);
  const double with = bench::quantile(asked, 0.5);
  return {{"model_us", 1e6 * alone},
          {"model_p99_us", 1e6 * bench::quantile(model, 0.99)},
          {"request_us", 1e6 * with},
          {"request_p99_us", 1e6 * bench::quantile(asked, 0.99)},
          {"overhead", with / alone - 1},
          {"requests_per_second", 1 / with},
          {"clients", kClients},
          {"requests_per_second_of_clients",
           requests_per_second(server.port(), request, requests / kClients)},
          {"batch", 1},
          {"requests", requests}};
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_cost_program(
      argc, argv,
      {.name = "serve-cost",
       .about = "What a request over HTTP costs beside the model's own time, "
                "as JSON",
       .count = 4000,
       .measure = measure});
}
