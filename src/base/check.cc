#include "base/check.h"

namespace trireme {

void contract_failure(const char* file, int line, const char* condition,
                      const std::string& detail) {
  throw ContractError(std::string(file) + ":" + std::to_string(line) + ": " + detail + " [" +
                      condition + "]");
}

}  // namespace trireme
