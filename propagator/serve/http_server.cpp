#include "propagator/serve/http_server.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "propagator/serve/http_session.h"

namespace propagator::serve {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

// Reading and writing is light work beside a model's.
constexpr int kThreads = 2;
// The machine is out of files, or the like: others may end meanwhile.
constexpr auto kPause = std::chrono::milliseconds(100);

Tcp::acceptor listening(asio::io_context& io, const std::string& address,
                        uint16_t port) {
  try {
    const Tcp::endpoint place(asio::ip::make_address(address), port);
    Tcp::acceptor acceptor(asio::make_strand(io));
    acceptor.open(place.protocol());
    acceptor.set_option(Tcp::acceptor::reuse_address(true));
    acceptor.bind(place);
    acceptor.listen();
    return acceptor;
  } catch (const boost::system::system_error& error) {
    throw UsageError(
        fmt::format("[serve] cannot listen on {} port {}: {}", address, port,
                    error.code().message()),
        error.code() == asio::error::address_in_use
            ? "another program does; --port chooses another one, 0 any that is "
              "free"
            : "");
  }
}

}  // namespace

class HttpServer::Listener {
 public:
  Listener(const std::string& address, uint16_t port, const HttpLimits& limits,
           Handler& handler, Metrics& metrics)
      : shared_{limits, handler, metrics},
        acceptor_(listening(io_, address, port)),
        pause_(acceptor_.get_executor()),
        port_(acceptor_.local_endpoint().port()) {
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (int n = 0; n < kThreads; ++n) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~Listener() { stop(); }

  uint16_t port() const { return port_; }

  void stop() {
    if (shared_.stopping.exchange(true)) return;
    asio::post(acceptor_.get_executor(), [this] {
      acceptor_.close();
      pause_.cancel();
    });
    for (const auto& session : alive()) session->finish();
    wait_for_all();
    work_.reset();
    for (auto& thread : threads_) thread.join();
  }

 private:
  // A connection that fails for want of memory ends; the others go on.
  void work() {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception&) {
        continue;
      }
    }
  }

  void accept() {
    acceptor_.async_accept(
        asio::make_strand(io_),
        [this](boost::system::error_code error, Tcp::socket socket) {
          if (shared_.stopping) return;
          if (!error) {
            begin(std::move(socket));
            return accept();
          }
          pause_.expires_after(kPause);
          pause_.async_wait([this](boost::system::error_code) {
            if (!shared_.stopping) accept();
          });
        });
  }

  void begin(Tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    std::unique_lock lock(mutex_);
    const bool too_many = std::ssize(sessions_) >= shared_.limits.connections;
    const int64_t number = ++last_;
    // Whoever lets go of it last says so.
    const std::shared_ptr<HttpSession> session(
        new HttpSession(std::move(socket), shared_),
        [this, number](HttpSession* ended) {
          delete ended;
          forget(number);
        });
    sessions_.emplace(number, session);
    lock.unlock();
    if (too_many) return session->refuse();
    session->start();
  }

  void forget(int64_t number) {
    const std::lock_guard lock(mutex_);
    sessions_.erase(number);
    all_ended_.notify_all();
  }

  std::vector<std::shared_ptr<HttpSession>> alive() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<HttpSession>> all;
    for (const auto& [number, session] : sessions_) {
      if (auto one = session.lock()) all.push_back(std::move(one));
    }
    return all;
  }

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [this] { return sessions_.empty(); });
  }

  asio::io_context io_{kThreads};
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(io_);
  HttpShared shared_;
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  uint16_t port_;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::map<int64_t, std::weak_ptr<HttpSession>> sessions_;  // by number
  int64_t last_ = 0;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(const std::string& address, uint16_t port,
                       const HttpLimits& limits, Handler& handler,
                       Metrics& metrics)
    : listener_(std::make_unique<Listener>(address, port, limits, handler,
                                           metrics)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return listener_->port(); }
void HttpServer::stop() { listener_->stop(); }

bool has_http() { return true; }

}  // namespace propagator::serve
