#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace trireme {

// Why an operation failed. It decides the exit code of the process (docs/cli.md).
enum class ErrorKind {
  Usage,       // wrong usage or configuration: exit 2
  Infeasible,  // the plan does not fit or is impossible: exit 3
  Damaged,     // a file is damaged or unreadable: exit 4
  Runtime,     // a rank, device, link or the operating system failed: exit 5
};

// One message with what failed, where, why, and what to change.
struct Error {
  ErrorKind kind = ErrorKind::Runtime;
  std::string message;
};

inline Error usage(std::string message) { return {ErrorKind::Usage, std::move(message)}; }
inline Error infeasible(std::string message) { return {ErrorKind::Infeasible, std::move(message)}; }
inline Error damaged(std::string message) { return {ErrorKind::Damaged, std::move(message)}; }

// A value or an error, for failures to which the caller can react.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    TRIREME_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<Error>(state_);
  }
  T& value() & {
    TRIREME_CHECK(ok(), "value() of a failed Result: " + std::get<Error>(state_).message);
    return std::get<T>(state_);
  }
  const T& value() const& { return const_cast<Result*>(this)->value(); }
  T&& value() && { return std::move(value()); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

// For Result<Done>, which is success or an error without a value.
struct Done {};
using Status = Result<Done>;

// Puts the place of a failure before its message: "checkpoints/step-000010/index.json: unexpected
// end".
Error with_context(const Error& error, const std::string& where);

// TRIREME_TRY(header, load_header(path)): binds the value or returns the error to the caller.
#define TRIREME_TRY(name, expression)                        \
  auto name##_or_error = (expression);                       \
  if (!name##_or_error.ok()) return name##_or_error.error(); \
  auto& name = name##_or_error.value()

#define TRIREME_TRY_DONE(expression)                                                          \
  do {                                                                                        \
    if (auto done_or_error = (expression); !done_or_error.ok()) return done_or_error.error(); \
  } while (false)

}  // namespace trireme
