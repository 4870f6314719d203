#pragma once

#include <cstdint>
#include <string>

namespace trireme {

std::string format_bytes(int64_t bytes);      // "3.2 GiB"
std::string format_count(double count);       // "124.4M"
std::string format_duration(double seconds);  // "4m 32s"
std::string format_seconds(double seconds);   // "12.3 ms"
std::string format_rate(double per_second);   // "2.08k"

// "3.1416" with so many digits; "nan" whatever its sign, "inf" and "-inf".
std::string format_fixed(double value, int digits);

}  // namespace trireme
