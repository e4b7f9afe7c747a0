#pragma once

#include <string>

#include "propagator/core/error.h"

namespace propagator::pde {

// A text that cannot be read. `what()` is one sentence, the line it is about
// and a picture of the place:
//   unknown function 'sine'
//     u_t - sine(x)
//           ^~~~
class SyntaxError : public UsageError {
 public:
  // Position and length are in bytes of `text`; the picture counts characters.
  SyntaxError(const std::string& sentence, std::string text, size_t position,
              size_t length, std::string hint = "");

  const std::string& sentence() const { return sentence_; }
  const std::string& text() const { return text_; }
  size_t position() const { return position_; }
  size_t length() const { return length_; }

 private:
  std::string sentence_, text_;
  size_t position_, length_;
};

}  // namespace propagator::pde
