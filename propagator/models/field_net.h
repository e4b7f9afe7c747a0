#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "propagator/autodiff/field_net.h"
#include "propagator/core/config.h"
#include "propagator/core/kinds.h"

namespace propagator::models {

using autodiff::as_field_net;
using autodiff::FieldDomain;
using autodiff::FieldNet;

// A kind of field network: its options, which also make it.
class FieldNetOptions {
 public:
  virtual ~FieldNetOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if the fields contradict one another or the domain.
  virtual void validate(const FieldDomain& domain) const = 0;
  // Whether tokens of a window see each other; otherwise one token is enough.
  virtual bool windowed() const = 0;
  // Whether it answers from readings, and is nothing without them.
  virtual bool needs_readings() const { return false; }
  // Whether `observe` fits it to them, and nothing is left to train.
  virtual bool is_fitted() const { return false; }
  // The highest derivative that it has everywhere, for a spline; -1: any.
  virtual int64_t smoothness() const { return -1; }
  virtual std::shared_ptr<FieldNet> make(const FieldDomain& domain) const = 0;
};

// The field networks by name, as `model.name` in a configuration.
const Kinds<FieldNetOptions>& field_nets();

}  // namespace propagator::models
