#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// What the operating system says about this machine; asked before a run, never during one.
int num_available_cores();         // that this process may use
int64_t available_memory_bytes();  // without swapping; 0: unknown
int64_t rss_peak_bytes();          // of this process so far
std::string host_name();
std::string cpu_model();

}  // namespace trireme
