#pragma once

#include <exception>
#include <stdexcept>

#include "base/result.h"

namespace trireme {

// Carries an Error through code that throws.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const Error& error) : std::runtime_error(error.message), error_(error) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Decides which error kind, and so which exit code, an exception has. No other function decides
// that.
Error error_of(const std::exception& exception);

}  // namespace trireme
