#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// One description of the command line. Parsing, --help, the manual page, shell completion and
// docs/cli.md are derived from it.

// The variable that stores the value of an option. Its type decides which texts are valid.
using OptionTarget =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::optional<int>*,
                 std::optional<int64_t>*, std::optional<double>*, std::vector<std::string>*>;

// The completions that a shell offers for a value.
enum class Completion { None, File, Folder, ConfigKey };

struct Option {
  std::string name;        // such as "seed" for --seed
  char letter = 0;         // such as 's' for -s
  std::string value_name;  // such as "N"; "" for a flag (bool)
  std::string doc;
  OptionTarget target;  // if it is a vector the option may be repeated
  std::vector<std::string> choices = {};
  Completion completion = Completion::None;
};

struct Argument {
  std::string name;  // such as "RUN.toml"
  std::string doc;
  OptionTarget target;  // a vector takes all remaining arguments
  bool required = true;
  std::vector<std::string> choices = {};
  Completion completion = Completion::None;
};

struct Command {
  std::string name;
  std::string summary;  // one line
  std::string details = {};
  std::vector<Argument> arguments = {};
  std::vector<Option> options = {};
  std::vector<std::string> examples = {};
  std::vector<Command> subcommands = {};
  // Returns the exit code; absent for a group of subcommands.
  std::function<Result<int>(CommandIo&)> run = {};
};

// The command named by the arguments; its targets are filled.
struct ParsedCommand {
  const Command* command = nullptr;
  std::string path;   // such as "trireme config show"
  bool help = false;  // --help was given; nothing else was checked
  bool bare = false;  // the name of a group of subcommands, without a subcommand
};

// `args` does not include the name of the program. Error messages begin with the path of the
// command.
Result<ParsedCommand> parse_arguments(const Command& root, std::span<const std::string> args);

// Finds the command below `root` with these names. The error suggests the nearest name.
Result<ParsedCommand> find_command(const Command& root, std::span<const std::string> names);

bool is_repeatable(const OptionTarget& target);
bool is_flag(const Option& option);

}  // namespace trireme
