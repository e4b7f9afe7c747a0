#include "propagator/serve/server.h"

#include <fmt/format.h>

#include "propagator/core/log.h"

namespace propagator::serve {
namespace {

Service::Models opened_models(const ServerOptions& options) {
  const Access checked(options.service.access);  // before the longer work
  Service::Models models;
  for (const auto& text : options.runs) {
    models.push_back(ServedModel::open(text, options.change));
    const auto& model = *models.back();
    log::info("{}: {} of {}, on {}", model.name(), model.version(),
              model.run().directory().path().string(),
              model.run().runtime().device_name());
  }
  return models;
}

}  // namespace

Server::Server(const ServerOptions& options)
    : service_(opened_models(options), options.service),
      http_(service_.access().address(), options.port, options.limits, service_,
            service_.metrics()) {}

std::string Server::url() const {
  const auto& address = service_.access().address();
  const bool is_v6 = address.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", address, port())
               : fmt::format("http://{}:{}", address, port());
}

}  // namespace propagator::serve
