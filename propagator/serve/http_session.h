#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <optional>

#include "propagator/serve/http_server.h"

namespace propagator::serve {

// What all connections of a server share.
struct HttpShared {
  const HttpLimits limits;
  Handler& handler;
  Metrics& metrics;
  std::atomic<bool> stopping = false;
  std::atomic<int64_t> large_bytes = 0;  // of bodies that are held now
};

// One connection: reads a request, has it answered, writes the response, and so
// on. All its work is done in its strand, one piece at a time.
//
// A client has the limit's seconds to send a request, from when it could begin,
// and again to take the response. What is refused before its body was read ends
// the connection.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, HttpShared& shared);
  ~HttpSession();

  void start();
  // Takes no connection more than there may be: says so, and ends.
  void refuse();
  // Ends between two requests: at once if none has begun to arrive.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  using Error = boost::beast::error_code;
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Message = boost::beast::http::response<boost::beast::http::string_body>;

  void start_deadline();
  void watch();
  void read_head();
  void on_head(Error error);
  RequestHead parsed_head() const;
  void expect_readable_body() const;
  void hold(int64_t bytes);
  void release();
  void read_body();
  void on_body(Error error);
  void refuse_unread(const std::exception& error);
  void on_broken_request(Error error);
  void send(Response response);
  void on_sent(Error error);
  void linger();
  void discard();
  bool is_idle();

  HttpShared& shared_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer deadline_;  // of what is read or written
  Clock::time_point due_;
  bool is_watched_ = false;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  RequestHead head_;
  Message continue_, message_;
  bool reading_ = false, writing_ = false, too_late_ = false;
  bool unread_ = false;  // some of what the client sends
  bool ends_ = false;    // after this response
  int64_t held_ = 0;     // bytes of shared_.large_bytes
  size_t discarded_ = 0;
  std::array<char, 4096> discard_{};
};

}  // namespace propagator::serve
