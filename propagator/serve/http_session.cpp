#include "propagator/serve/http_session.h"

#include <fmt/format.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>

namespace propagator::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr int64_t kLargeBody = 1 << 20;
constexpr size_t kReadAtOnce = 64 << 10;
// What a client still sends when it was refused is read for so long, so that it
// sees the response before its connection breaks.
constexpr auto kLinger = std::chrono::seconds(2);
constexpr size_t kMostDiscarded = 4 << 20;

std::chrono::nanoseconds duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

bool is_of_http(beast::error_code error) {
  return error.category() ==
         make_error_code(http::error::bad_method).category();
}

// Of a socket for both kinds of addresses: 127.0.0.1, not ::ffff:127.0.0.1.
std::string text_of(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) {
    return address.to_string();
  }
  return make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

Refused broken(beast::error_code error, const HttpLimits& limits) {
  if (error == asio::error::operation_aborted) {
    return {408, fmt::format("expected the whole request within {:g} s",
                             limits.seconds)};
  }
  if (error == http::error::body_limit) {
    return {413, fmt::format("expected a body of at most {} bytes",
                             limits.body_bytes)};
  }
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow) {
    return {431, fmt::format("expected headers of at most {} bytes",
                             limits.header_bytes)};
  }
  return {400, "expected a request of HTTP/1.1: " + error.message()};
}

}  // namespace

HttpSession::HttpSession(asio::ip::tcp::socket socket, HttpShared& shared)
    : shared_(shared),
      stream_(std::move(socket)),
      deadline_(stream_.get_executor()),
      buffer_(static_cast<size_t>(shared.limits.header_bytes) + kReadAtOnce) {
  shared_.metrics.connection_opened();
}

HttpSession::~HttpSession() {
  release();
  shared_.metrics.connection_closed();
}

void HttpSession::start() {
  asio::dispatch(stream_.get_executor(),
                 [self = shared_from_this()] { self->read_head(); });
}

void HttpSession::refuse() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
    self->refuse_unread(Refused(503, "too many connections are open", "",
                                {{"Retry-After", "1"}}));
  });
}

void HttpSession::finish() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
    if (self->is_idle()) self->stream_.close();
  });
}

// Nothing of a next request has arrived.
bool HttpSession::is_idle() {
  Error ignored;
  return reading_ && !parser_->got_some() && buffer_.size() == 0 &&
         stream_.socket().available(ignored) == 0;
}

// The stream's own limit would close it, with nothing said.
void HttpSession::start_deadline() {
  too_late_ = false;
  due_ = Clock::now() + duration(shared_.limits.seconds);
  if (!is_watched_) watch();
}

// One wait serves many requests: to end it with each would wake a thread that
// only hears of it.
void HttpSession::watch() {
  is_watched_ = true;
  deadline_.expires_at(due_);
  deadline_.async_wait([weak = weak_from_this()](Error error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->is_watched_ = false;
    if (!self->reading_ && !self->writing_) return;
    if (Clock::now() < self->due_) return self->watch();
    self->too_late_ = true;
    self->stream_.cancel();
  });
}

void HttpSession::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
  parser_->body_limit(static_cast<uint64_t>(shared_.limits.body_bytes));
  reading_ = true;
  if (shared_.stopping && is_idle()) return stream_.close();
  stream_.expires_never();
  start_deadline();
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, size_t) {
                            self->on_head(error);
                          });
}

void HttpSession::on_head(Error error) {
  if (error) return on_broken_request(error);
  try {
    expect_readable_body();
    head_ = parsed_head();
    shared_.handler.admit(head_);
    hold(static_cast<int64_t>(parser_->content_length().value_or(0)));
  } catch (const std::exception& refusal) {
    return refuse_unread(refusal);
  }
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    return read_body();
  }
  continue_ = Message{http::status::continue_, 11};
  http::async_write(stream_, continue_,
                    [self = shared_from_this()](Error failed, size_t) {
                      if (!failed) self->read_body();
                    });
}

RequestHead HttpSession::parsed_head() const {
  const auto& request = parser_->get();
  RequestHead head{.method = std::string(request.method_string()),
                   .target = std::string(request.target()),
                   .fields = {},
                   .local_address = {}};
  for (const auto& field : request) {
    head.fields.emplace_back(field.name_string(), field.value());
  }
  Error error;
  const auto here = stream_.socket().local_endpoint(error);
  if (!error) head.local_address = text_of(here.address());
  return head;
}

void HttpSession::expect_readable_body() const {
  const auto& request = parser_->get();
  if (request.count(http::field::transfer_encoding) > 0) {
    throw Refused(411, "expected a body of a given length",
                  "send Content-Length, not Transfer-Encoding");
  }
  const auto encoding = request[http::field::content_encoding];
  if (encoding.empty() || beast::iequals(encoding, "identity")) return;
  throw Refused(415, "expected a body that is not compressed",
                "send it without Content-Encoding");
}

// Large bodies, of requests and responses, share a limit, so that many clients
// cannot fill the memory; one alone may be larger.
void HttpSession::hold(int64_t bytes) {
  if (bytes <= kLargeBody) return;
  held_ = bytes;
  const int64_t others = shared_.large_bytes.fetch_add(bytes);
  if (others == 0 || others + bytes <= shared_.limits.large_bodies_bytes) {
    return;
  }
  release();
  throw Refused(503, "too many large requests are at work", "",
                {{"Retry-After", "1"}});
}

void HttpSession::release() {
  shared_.large_bytes -= held_;
  held_ = 0;
}

void HttpSession::read_body() {
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](Error error, size_t) {
                     self->on_body(error);
                   });
}

void HttpSession::on_body(Error error) {
  if (error) return on_broken_request(error);
  reading_ = false;
  Request request{std::move(head_), std::move(parser_->get().body())};
  ends_ = !parser_->keep_alive();
  parser_.reset();
  shared_.handler.answer(
      std::move(request), [self = shared_from_this()](Response response) {
        asio::dispatch(self->stream_.get_executor(),
                       [self, response = std::move(response)]() mutable {
                         self->send(std::move(response));
                       });
      });
}

// The rest of it, if there is any, would be read as the next request.
void HttpSession::refuse_unread(const std::exception& error) {
  reading_ = false;
  unread_ = ends_ = true;
  send(response_to(error));
}

void HttpSession::on_broken_request(Error error) {
  const bool says_why = error == asio::error::operation_aborted
                            ? too_late_ && parser_->got_some()
                            : error != http::error::end_of_stream &&
                                  error != http::error::partial_message &&
                                  is_of_http(error);
  if (says_why) return refuse_unread(broken(error, shared_.limits));
  stream_.close();
}

void HttpSession::send(Response response) {
  release();
  try {
    hold(std::ssize(response.body));
  } catch (const Refused& refusal) {
    response = response_to(refusal);
  }
  ends_ = ends_ || shared_.stopping;
  message_ = Message{static_cast<http::status>(response.status), 11};
  message_.set(http::field::server, "propagator");
  message_.set("X-Content-Type-Options", "nosniff");
  if (response.status != 204) {
    message_.set(http::field::content_type, response.content_type);
  }
  for (const auto& [name, value] : response.fields) message_.set(name, value);
  message_.keep_alive(!ends_);
  message_.body() = std::move(response.body);
  message_.prepare_payload();
  shared_.metrics.responded(response.status);
  stream_.expires_never();
  writing_ = true;
  start_deadline();
  http::async_write(stream_, message_,
                    [self = shared_from_this()](Error error, size_t) {
                      self->on_sent(error);
                    });
}

void HttpSession::on_sent(Error error) {
  writing_ = false;
  message_ = {};
  release();
  if (error) return stream_.close();
  if (unread_) return linger();
  if (ends_) return stream_.close();
  read_head();
}

void HttpSession::linger() {
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLinger);
  discard();
}

void HttpSession::discard() {
  stream_.async_read_some(
      asio::buffer(discard_),
      [self = shared_from_this()](Error error, size_t bytes) {
        self->discarded_ += bytes;
        if (error || self->discarded_ > kMostDiscarded) {
          return self->stream_.close();
        }
        self->discard();
      });
}

}  // namespace propagator::serve
