#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// What the operating system says about this machine; asked before a run, never during one.
int num_available_cores();            // that this process may use
int64_t available_memory_bytes();     // without swapping; 0: unknown
std::string host_name();
std::string cpu_model();

}  // namespace trireme
