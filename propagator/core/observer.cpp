#include "propagator/core/observer.h"

namespace propagator {
namespace {

thread_local Observer* t_observer = nullptr;

}  // namespace

Observer& observer() {
  static Observer silent;
  return t_observer != nullptr ? *t_observer : silent;
}

ObserverScope::ObserverScope(Observer& observer) : outer_(t_observer) {
  t_observer = &observer;
}

ObserverScope::~ObserverScope() { t_observer = outer_; }

}  // namespace propagator
