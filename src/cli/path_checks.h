#pragma once

#include <string>

#include "base/result.h"

namespace trireme {

// Checks that a checkpoint or run directory exists. If it does not, that is a Usage error, not
// damage.
Status require_folder(const std::string& path);

// Checks the same of a path that can only be a run directory.
Status require_run_folder(const std::string& path);

// Does the same for a checkpoint that may also be in a store. A name of a store is checked when it
// is opened.
Status require_checkpoint(const std::string& path);

// Refuses names such as store://NAME/PATH, for a command that lists folders or reads files of other
// programs, and says how to fetch them.
Status require_here(const std::string& path);

// Checks that --adapters names a folder of adapters as PEFT writes it. Otherwise the error says
// what it is instead.
Status require_adapters(const std::string& path);

// Returns true if the path is a checkpoint or a run directory of Trireme.
bool is_own_model(const std::string& path);

// Returns true if `program` is the path of a file, or a name in a folder of `search_path`, the
// value of PATH.
bool has_program(const std::string& program, const std::string& search_path);

// Checks that an output path is new: not a file, and not a folder with files.
Status require_new(const std::string& out);

}  // namespace trireme
