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

// These structs describe the command line once. Parsing, --help, the manual page, shell completion
// and docs/cli.md read this description.

// The variable that receives a value. Its type says what the text must be.
using OptionTarget =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::optional<int>*,
                 std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::vector<std::string>*>;

// The kind of values that a shell offers as completions.
enum class Completion { None, File, Folder, ConfigKey };

struct Option {
  std::string name;        // such as "seed" for --seed
  char letter = 0;         // such as 's' for -s
  std::string value_name;  // such as "N"; "" for a flag (bool)
  std::string doc;
  // A vector: the option may be repeated. An optional text: the value may be left out, and is ""
  // then.
  OptionTarget target;
  std::vector<std::string> choices = {};
  Completion completion = Completion::None;
  // Not null: the word behind the value belongs to the option as well, unless it is an option.
  std::string* second = nullptr;
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
  std::function<Result<int>(CommandIo&)> run = {};  // returns the exit code; groups have none
};

// The command that the arguments name, with all its targets set.
struct ParsedCommand {
  const Command* command = nullptr;
  std::string path;   // "trireme config show"
  bool help = false;  // --help was among the arguments: nothing else was checked
  bool bare = false;  // a group of subcommands was named without any of them
};

// `args` does not contain the name of the program. An error message begins with the path of the
// command.
Result<ParsedCommand> parse_arguments(const Command& root, std::span<const std::string> args);

// Returns the command below `root` with these names. An error suggests the nearest name.
Result<ParsedCommand> find_command(const Command& root, std::span<const std::string> names);

bool is_repeatable(const OptionTarget& target);
bool is_flag(const Option& option);
bool may_lack_value(const Option& option);

}  // namespace trireme
