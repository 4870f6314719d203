#pragma once

#include <stdexcept>
#include <string>

namespace trireme::api {

// The exception that every function of this library throws. Its message says what failed, where,
// why, and what to change.
class Failure : public std::runtime_error {
 public:
  // The values equal the exit codes of the program `trireme`.
  enum class Kind {
    Usage = 2,       // wrong use of a function, or a wrong configuration
    Infeasible = 3,  // the run does not fit into memory, or no such layout exists
    Damaged = 4,     // a file is damaged or unreadable
    Runtime = 5,     // a rank, device or the operating system failed
  };

  Failure(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace trireme::api
