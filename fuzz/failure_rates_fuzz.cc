// Files of failure rates: any input gives rates of which every job has finite causes that never
// become rarer with its size, or an error with a message.

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "config/failure_rates_file.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<FailureRates> rates = parse_failure_rates(text, "rates.toml");
  if (!rates.ok()) {
    if (rates.error().message.empty()) std::abort();
    return 0;
  }
  for (const int64_t devices : {1, 8, 1000, 131072}) {
    double per_day = 0.0;
    for (const JobCause& cause : causes_of_job(*rates, devices)) {
      if (!std::isfinite(cause.per_day) || cause.per_day < 0.0) std::abort();
      per_day += cause.per_day;
    }
    if (!std::isfinite(per_day) || !(mttf_s(*rates, devices) > 0.0)) std::abort();
  }
  return 0;
}
