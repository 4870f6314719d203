#pragma once

#include <stdexcept>
#include <string>

namespace trireme::api {

// What every function of this library throws. The message says what, where, why and what to change.
class Failure : public std::runtime_error {
 public:
  // The numbers are the exit codes of the program `trireme`.
  enum class Kind {
    Usage = 2,       // wrong usage or configuration
    Infeasible = 3,  // the plan does not fit or cannot be
    Damaged = 4,     // a file is damaged or unreadable
    Runtime = 5,     // a rank, device or the operating system failed
  };

  Failure(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace trireme::api
