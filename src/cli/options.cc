#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest_name.h"
#include "config/unknown_key.h"

namespace trireme {
namespace {

Error wrong_usage(const std::string& path, const std::string& message) {
  return {ErrorKind::Usage, fmt::format("{}: {}", path, message)};
}

std::string meant(const std::string& nearest) {
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

template <typename T>
bool parse_number(const std::string& text, T* target) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || text.empty()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return false;
  }
  *target = value;
  return true;
}

// Stores a text into a target. Returns false if it does not have the type of the target.
struct SetTarget {
  const std::string& text;

  bool operator()(bool*) const { return false; }
  bool operator()(std::string* target) const {
    *target = text;
    return true;
  }
  bool operator()(std::optional<std::string>* target) const {
    *target = text;
    return true;
  }
  bool operator()(std::vector<std::string>* target) const {
    target->push_back(text);
    return true;
  }
  template <typename T>
  bool operator()(T* target) const {
    return parse_number(text, target);
  }
  template <typename T>
  bool operator()(std::optional<T>* target) const {
    T value{};
    if (!parse_number(text, &value)) return false;
    *target = value;
    return true;
  }
};

struct WantedType {
  template <typename T>
  std::string operator()(const T*) const {
    return "an integer";
  }
  std::string operator()(const uint64_t*) const { return "an integer, not negative"; }
  std::string operator()(const double*) const { return "a number"; }
  std::string operator()(const std::optional<double>*) const { return "a number"; }
};

Status store_value(const std::string& path, const std::string& name, const std::string& text,
                   const OptionTarget& target, const std::vector<std::string>& choices) {
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return wrong_usage(
        path, fmt::format("{} {} is unknown; use {}{}", name, text, fmt::join(choices, ", "),
                          meant(nearest_name(text, choices))));
  }
  if (std::visit(SetTarget{text}, target)) return Done{};
  return wrong_usage(path,
                     fmt::format("{} {} must be {}", name, text, std::visit(WantedType{}, target)));
}

class Parser {
 public:
  Parser(const Command& root, std::span<const std::string> args)
      : command_(&root), path_(root.name), args_(args) {}

  Result<ParsedCommand> parse() {
    for (const std::string& arg : args_) {
      if (arg == "--") break;
      if (arg == "--help" || arg == "-h") help_ = true;
    }
    while (next_ < args_.size()) {
      const std::string& arg = args_[next_++];
      if (arg == "--help" || arg == "-h") continue;
      if (!command_->subcommands.empty() && !options_ended_ && !is_option(arg)) {
        TRIREME_TRY_DONE(enter(arg));
        continue;
      }
      if (help_) continue;  // with --help only the names of subcommands matter
      if (options_ended_ || !is_option(arg)) {
        TRIREME_TRY_DONE(take_argument(arg));
      } else if (arg == "--") {
        options_ended_ = true;
      } else {
        TRIREME_TRY_DONE(arg.rfind("--", 0) == 0 ? take_long(arg) : take_letters(arg));
      }
    }
    if (!help_) TRIREME_TRY_DONE(check_arguments());
    const bool bare = !command_->run;
    return ParsedCommand{command_, path_, help_, bare};
  }

 private:
  // "-" by itself means standard input.
  static bool is_option(const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; }

  Status enter(const std::string& name) {
    std::vector<std::string> names;
    for (const Command& subcommand : command_->subcommands) {
      if (subcommand.name == name) {
        command_ = &subcommand;
        path_ += " " + name;
        return Done{};
      }
      names.push_back(subcommand.name);
    }
    const std::string nearest = nearest_name(name, names);
    return wrong_usage(path_, fmt::format("{} is not a command{}", name,
                                          nearest.empty() ? fmt::format("; the commands are {}",
                                                                        fmt::join(names, ", "))
                                                          : meant(nearest)));
  }

  Status take_argument(const std::string& text) {
    const auto& arguments = command_->arguments;
    if (num_arguments_ >= arguments.size()) {
      if (arguments.empty() || !is_repeatable(arguments.back().target)) {
        return wrong_usage(path_, fmt::format("{} is one argument too many", text));
      }
      num_arguments_ = arguments.size() - 1;
    }
    const Argument& argument = arguments[num_arguments_++];
    return store_value(path_, argument.name, text, argument.target, argument.choices);
  }

  Status take_long(const std::string& arg) {
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
    for (const Option& option : command_->options) {
      if (option.name != name) continue;
      if (equals == std::string::npos) return take_option(option, "--" + name);
      const std::string value = arg.substr(equals + 1);
      if (!is_flag(option)) {
        take_second(option);
        return store_value(path_, "--" + name, value, option.target, option.choices);
      }
      return wrong_usage(path_, fmt::format("--{} does not take a value", name));
    }
    return unknown_option("--" + name, equals == arg.npos ? "" : arg.substr(equals + 1));
  }

  // Parses -n 10 and -n10.
  Status take_letters(const std::string& arg) {
    for (const Option& option : command_->options) {
      if (option.letter != arg[1]) continue;
      const std::string name = arg.substr(0, 2);
      if (arg.size() == 2) return take_option(option, name);
      if (!is_flag(option)) {
        return store_value(path_, name, arg.substr(2), option.target, option.choices);
      }
    }
    return unknown_option(arg, "");
  }

  // Behind an option whose value may be left out: an option is none, nor is a configuration.
  static bool is_value(const std::string& word) {
    return !is_option(word) && !word.ends_with(".toml");
  }

  // The value is the next word, even if it looks like an option, because numbers may be negative.
  Status take_option(const Option& option, const std::string& name) {
    if (is_flag(option)) {
      *std::get<bool*>(option.target) = true;
      return Done{};
    }
    if (may_lack_value(option) && (next_ == args_.size() || !is_value(args_[next_]))) {
      return store_value(path_, name, "", option.target, option.choices);
    }
    if (next_ == args_.size()) {
      return wrong_usage(path_,
                         fmt::format("{} needs a value, {} {}", name, name, option.value_name));
    }
    const std::string& value = args_[next_++];
    take_second(option);
    return store_value(path_, name, value, option.target, option.choices);
  }

  void take_second(const Option& option) {
    if (option.second == nullptr || next_ == args_.size() || is_option(args_[next_])) return;
    *option.second = args_[next_++];
  }

  // If keys of RUN.toml can be set, explains that they are not options: --tp 2 is --set
  // parallel.tp=2.
  Status unknown_option(const std::string& name, std::string value) const {
    const std::string word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::vector<std::string> names = {"help"};
    bool sets_keys = false;
    for (const Option& option : command_->options) {
      names.push_back(option.name);
      sets_keys |= option.completion == Completion::ConfigKey;
    }
    const bool has_next = next_ < args_.size() && !is_option(args_[next_]);
    if (value.empty()) value = has_next ? args_[next_] : "VALUE";
    if (const std::string set = sets_keys ? write_set(word, value) : ""; !set.empty()) {
      return wrong_usage(path_, fmt::format("{} is unknown; {}", name, set));
    }
    const std::string nearest = nearest_name(word, names);
    return wrong_usage(
        path_, fmt::format("{} is unknown{}", name, meant(nearest.empty() ? "" : "--" + nearest)));
  }

  Status check_arguments() const {
    for (size_t i = num_arguments_; i < command_->arguments.size(); ++i) {
      const Argument& argument = command_->arguments[i];
      if (argument.required) return wrong_usage(path_, fmt::format("{} is missing", argument.name));
    }
    return Done{};
  }

  const Command* command_;
  std::string path_;
  std::span<const std::string> args_;
  size_t next_ = 0;
  size_t num_arguments_ = 0;
  bool options_ended_ = false;
  bool help_ = false;
};

}  // namespace

Result<ParsedCommand> parse_arguments(const Command& root, std::span<const std::string> args) {
  return Parser(root, args).parse();
}

Result<ParsedCommand> find_command(const Command& root, std::span<const std::string> names) {
  std::vector<std::string> args(names.begin(), names.end());
  args.push_back("--help");
  return Parser(root, args).parse();
}

bool is_repeatable(const OptionTarget& target) {
  return std::holds_alternative<std::vector<std::string>*>(target);
}

bool may_lack_value(const Option& option) {
  return std::holds_alternative<std::optional<std::string>*>(option.target);
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.target); }

}  // namespace trireme
