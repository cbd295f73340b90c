// A port of loopback that answers every request with the same text, as a web server might.
#pragma once

#include "rendezvous/base/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

// With an empty text it stays silent.
class answering_port {
 public:
  answering_port(boost::asio::io_context& context, std::string words)
      : acceptor_(context,
                  boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        words_(std::move(words)) {
    accept();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  const std::string& request() const { return request_; }
  std::size_t asked() const { return sockets_.size(); }
  void answer_from_now_on(std::string words) { words_ = std::move(words); }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, boost::asio::ip::tcp::socket socket) {
      if (error) return;
      sockets_.push_back(std::make_unique<boost::asio::ip::tcp::socket>(std::move(socket)));
      boost::asio::ip::tcp::socket& taken = *sockets_.back();
      request_.clear();
      boost::asio::async_read_until(taken, boost::asio::dynamic_buffer(request_), "\r\n\r\n",
                                    [this, &taken](error_code failed, std::size_t) {
                                      if (failed || words_.empty()) return;
                                      boost::asio::async_write(taken, boost::asio::buffer(words_),
                                                               [](error_code, std::size_t) {});
                                    });
      accept();
    });
  }

  boost::asio::ip::tcp::acceptor acceptor_;
  std::string words_;
  std::string request_;
  std::vector<std::unique_ptr<boost::asio::ip::tcp::socket>> sockets_;
};

}  // namespace ddprun::tests
