// A job of torchtitan, TOML or JSON, with and without a RUN.toml below it.

#include "job_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool has_base : {true, false}) {
    trireme::check_job(trireme::JobTrainer::Torchtitan, text, "job.toml", has_base);
  }
  return 0;
}
