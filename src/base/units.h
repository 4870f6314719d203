#pragma once

#include <cstdint>
#include <string>

namespace trireme {

std::string format_bytes(int64_t bytes);      // such as "3.2 GiB"
std::string format_count(double count);       // such as "124.4M"
std::string format_duration(double seconds);  // such as "4m 32s"
std::string format_seconds(double seconds);   // such as "12.3 ms"
std::string format_rate(double per_second);   // such as "2.08k"

// Returns text such as "3.1416" with this many digits; "nan" without sign, "inf" or "-inf".
std::string format_fixed(double value, int digits);

}  // namespace trireme
