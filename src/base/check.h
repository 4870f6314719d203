#pragma once

#include <stdexcept>
#include <string>

namespace trireme {

// Thrown by TRIREME_CHECK if the code is wrong. Caught only at the top of a rank.
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Thrown if a step has failed. The type tells the top of a rank the kind of the first cause.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void contract_failure(const char* file, int line, const char* condition,
                                   const std::string& detail);

}  // namespace trireme

// Always on. `detail` is evaluated only on failure.
#define TRIREME_CHECK(condition, detail)                                     \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::trireme::contract_failure(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)

// For hot loops: compiled out with NDEBUG.
#ifdef NDEBUG
#define TRIREME_DCHECK(condition, detail) static_cast<void>(0)
#else
#define TRIREME_DCHECK(condition, detail) TRIREME_CHECK(condition, detail)
#endif
