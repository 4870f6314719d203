#pragma once

#include <exception>
#include <stdexcept>

#include "base/result.h"

namespace trireme {

// An Error on its way through code that throws.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const Error& error) : std::runtime_error(error.message), error_(error) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// The one place that decides which kind of failure, and so which exit code, an exception means.
Error error_of(const std::exception& exception);

}  // namespace trireme
