#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// A state that changes only by commands. Replicas that apply the same commands in the same order
// have the same state, so apply() must depend on nothing else: no clock, no random number, no
// address of memory. Commands, questions and answers are bytes that only the machine understands.
class StateMachine {
 public:
  virtual ~StateMachine() = default;
  // Changes the state and returns the answer. A command that cannot be done changes nothing, and
  // its answer says why.
  virtual std::string apply(std::string_view command) = 0;
  // Reads the state.
  virtual std::string query(std::string_view question) const = 0;
  // Returns the whole state as bytes, which are equal if two states are equal.
  virtual std::string snapshot() const = 0;
  // Replaces the state. Bytes that are no snapshot are an error, and the state does not change.
  virtual Status restore(std::string_view snapshot) = 0;
};

}  // namespace trireme
