#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// Facts about this machine from the operating system. They are read before a run, never during one.
int num_available_cores();         // cores that this process may use
int64_t available_memory_bytes();  // without swapping; 0: unknown
int64_t rss_peak_bytes();          // of this process so far
std::string host_name();
std::string cpu_model();

}  // namespace trireme
