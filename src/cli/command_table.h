#pragma once

#include "cli/options.h"
#include "cli/terminal.h"

namespace trireme {

// Every command of trireme with its options. Each option is bound to an options struct that the
// returned table owns.
Command command_table(const Environment& environment);

// Each of these functions makes the table of one group of commands.
Command train_command();
Command sweep_command();
Command launch_command(const Environment& environment);
Command chaos_command();
Command agent_command();
Command status_command();
Command stop_command();
Command drain_command();
Command failures_command();
Command scrub_command();
Command store_command();
Command plan_command();
Command serve_plan_command();
Command generate_command();
Command eval_command();
Command schedule_command();
Command tokenizer_command();
Command data_command();
Command checkpoint_command();
Command bench_command();
Command calibrate_command();
Command report_command();
Command reproduce_command();
Command config_command();
Command doctor_command(const Environment& environment);

// These arguments and options are shared by several commands.
Argument run_config_argument(std::vector<std::string>& files, bool required = true);
Option set_option(std::vector<std::string>& overrides);
Option ranks_option(std::optional<int>& ranks);
Option json_option(bool& json);
Option threads_option(int& threads);

// A usage error if the value of an option such as "--out" is empty.
Status require_option(const std::string& value, const char* option);

// Returns 0, or the error of a command that has no exit code of its own.
Result<int> exit_code_of(const Status& status);

}  // namespace trireme
