#pragma once

#define H5_USE_110_API  // what 1.12 and later call the interface of 1.10

#include <hdf5.h>

#include <mutex>
#include <utility>

namespace propagator::data {

// An HDF5 identifier that closes itself.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept { *this = std::move(other); }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  operator hid_t() const { return id_; }
  bool valid() const { return id_ >= 0; }
  // Closing writes what is still buffered, so it can fail.
  bool reset() {
    const bool good = id_ < 0 || close_(id_) >= 0;
    id_ = -1;
    return good;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// The library as it is usually built serves one thread at a time: a batch that
// is read ahead and another file must not meet in it.
inline std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace propagator::data
