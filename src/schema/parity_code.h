#pragma once

#include <string_view>

#include "base/result.h"

namespace trireme {

// An erasure code over hosts: of any num_data + num_parity hosts, num_parity may be lost.
struct ParityCode {
  int num_data = 1;
  int num_parity = 0;  // 0: a lost host is lost
  bool operator==(const ParityCode&) const = default;
};

// What checkpoint.parity says: "auto", "none", or K+M such as "4+2".
struct ParityChoice {
  bool is_auto = false;
  ParityCode code = {};
};
Result<ParityChoice> parse_parity(std::string_view text);

// The code for so many hosts. "auto" is a copy for two hosts and 2+1 for more. A choice that needs
// more hosts than there are keeps as many parity blocks as it can.
ParityCode parity_for(const ParityChoice& choice, int num_hosts);

}  // namespace trireme
