#include "cli/app.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/failure.h"
#include "base/json_text.h"
#include "cli/command_table.h"
#include "cli/completion.h"
#include "cli/config_command.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/printable.h"
#include "cli/version.h"

namespace trireme {
namespace {

// Adds the commands that read the table of which they are a part.
void add_table_commands(Command& root, bool* show_version) {
  struct Words {
    std::string shell;
    std::vector<std::string> names;
    bool man = false;
    bool markdown = false;
  };
  auto words = std::make_shared<Words>();
  root.options = {{.name = "version",
                   .doc = "print version, commit, compiler and kernels",
                   .target = show_version}};
  root.subcommands.push_back({.name = "completion",
                              .summary = "Print a script that completes commands in a shell.",
                              .arguments = {{.name = "SHELL",
                                             .doc = "the shell",
                                             .target = &words->shell,
                                             .choices = {"bash", "zsh", "fish"}}},
                              .examples = {"source <(trireme completion bash)"},
                              .run = [&root, words](CommandIo& io) -> Result<int> {
                                TRIREME_TRY(script, completion_script(root, words->shell));
                                io.out << script;
                                return 0;
                              }});
  root.subcommands.push_back(
      {.name = "help",
       .summary = "Print the help of a command.",
       .arguments = {{.name = "COMMAND",
                      .doc = "a command, such as config show, or a key, such as parallel.tp",
                      .target = &words->names,
                      .required = false}},
       .options = {{.name = "man", .doc = "print the manual page, in troff", .target = &words->man},
                   {.name = "markdown",
                    .doc = "print the reference of all commands, as in docs/cli.md",
                    .target = &words->markdown}},
       .examples = {"trireme help --man > trireme.1"},
       .run = [&root, words](CommandIo& io) -> Result<int> {
         if (words->man) {
           io.out << man_page(root, std::string(version()));
         } else if (words->markdown) {
           io.out << command_markdown(root);
         } else if (words->names.size() == 1 && looks_like_key(words->names.front())) {
           TRIREME_TRY(text, key_text(words->names.front()));
           io.out << text;
         } else {
           TRIREME_TRY(found, find_command(root, words->names));
           io.out << help_text(*found.command, found.path, 80);
         }
         return 0;
       }});
}

Result<int> run_command(const ParsedCommand& parsed, CommandIo& io) {
  const std::string path = io.launch.command_of_user(parsed.path);
  try {
    Result<int> result = parsed.command->run(io);
    if (!result.ok()) return in_command(result.error(), path);
    return result;
  } catch (const std::exception& error) {
    return in_command(error_of(error), path);
  }
}

// With --json, the error is also printed as JSON. The message may contain bytes that are not UTF-8.
void print_json_error(const Error& error, CommandIo& io) {
  const nlohmann::ordered_json json = {{"error", error.message},
                                       {"exit_code", exit_code(error.kind)}};
  io.out << lenient_json_text(json) << std::endl;
}

bool wants_json(const Command& command, std::span<const std::string> args) {
  const bool has_option = std::ranges::count(command.options, "json", &Option::name) > 0;
  const auto end = std::ranges::find(args, "--");
  return has_option && std::find(args.begin(), end, "--json") != end;
}

}  // namespace

int run_app(std::span<const std::string> args, const Environment& environment, CommandIo& io,
            int columns) {
  bool show_version = false;
  Command root = command_table(environment);
  add_table_commands(root, &show_version);
  const Result<ParsedCommand> parsed = parse_arguments(root, args);
  if (!parsed.ok()) {
    print_error(parsed.error().message, io);
    if (std::ranges::count(args, "--json") > 0) print_json_error(parsed.error(), io);
    io.err << "run trireme --help for the commands, or trireme COMMAND --help for the options of "
              "one\n";
    return exit_code(parsed.error().kind);
  }
  const Command& command = *parsed.value().command;
  if (parsed.value().help || (parsed.value().bare && !show_version)) {
    (parsed.value().help ? io.out : io.err) << help_text(command, parsed.value().path, columns);
    return parsed.value().help ? 0 : exit_code(ErrorKind::Usage);
  }
  if (show_version) {
    io.out << version_text();
    return 0;
  }
  const Result<int> result = run_command(parsed.value(), io);
  io.out.flush();
  if (!result.ok()) {
    if (wants_json(command, args)) print_json_error(result.error(), io);
    print_error(result.error().message, io);
    return exit_code(result.error().kind);
  }
  if (!io.out) {
    print_error("standard output cannot be written", io);
    return exit_code(ErrorKind::Damaged);
  }
  return result.value();
}

}  // namespace trireme
