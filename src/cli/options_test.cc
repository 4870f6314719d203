#include "cli/options.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>

#include "cli/app.h"
#include "cli/command_table.h"
#include "cli/completion.h"
#include "cli/help.h"

namespace trireme {
namespace {

struct Targets {
  bool flag = false;
  int64_t number = 7;
  double real = 0.5;
  std::optional<int> maybe;
  std::string word;
  std::optional<std::string> perhaps;
  std::vector<std::string> words;
  std::vector<std::string> rest;
};

Command example(Targets& targets) {
  Command inner = {
      .name = "go",
      .summary = "Go.",
      .arguments = {{.name = "FIRST", .doc = "first", .target = &targets.word},
                    {.name = "REST", .doc = "rest", .target = &targets.rest, .required = false}},
      .options = {{.name = "flag", .letter = 'f', .doc = "a flag", .target = &targets.flag},
                  {.name = "number",
                   .letter = 'n',
                   .value_name = "N",
                   .doc = "a number",
                   .target = &targets.number},
                  {.name = "real", .value_name = "X", .doc = "a real", .target = &targets.real},
                  {.name = "maybe", .value_name = "N", .doc = "maybe", .target = &targets.maybe},
                  {.name = "perhaps",
                   .value_name = "FILE",
                   .doc = "a value that may be left out",
                   .target = &targets.perhaps},
                  {.name = "set", .value_name = "K=V", .doc = "words", .target = &targets.words}},
      .run = [](CommandIo&) -> Result<int> { return 0; }};
  return {.name = "top", .summary = "Top.", .subcommands = {inner}};
}

std::string error_of(std::vector<std::string> args) {
  Targets targets;
  const Command root = example(targets);
  const auto parsed = parse_arguments(root, args);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Options, EverySpellingOfAValueMeansTheSame) {
  const std::vector<std::vector<std::string>> spellings = {
      {"go", "--number", "-3", "x"},
      {"go", "--number=-3", "x"},
      {"go", "-n", "-3", "x"},
      {"go", "-n-3", "x"},
      {"go", "x", "--number=-3"},
      {"go", "--number=-3", "--", "x"},
      {"go", "--number=9", "x", "-n", "-3"},
  };
  for (const auto& args : spellings) {
    Targets targets;
    const Command root = example(targets);
    const auto parsed = parse_arguments(root, args);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed.value().path, "top go");
    EXPECT_EQ(targets.number, -3);
    EXPECT_EQ(targets.word, "x");
  }
}

TEST(Options, RepeatedOptionsAndArgumentsKeepTheirOrder) {
  Targets targets;
  const Command root = example(targets);
  const std::vector<std::string> args = {"go",   "--set", "a=1", "x",     "--set=b=2=3",
                                         "rest", "-f",    "--",  "--set", "-"};
  ASSERT_TRUE(parse_arguments(root, args).ok());
  EXPECT_EQ(targets.words, (std::vector<std::string>{"a=1", "b=2=3"}));
  EXPECT_EQ(targets.rest, (std::vector<std::string>{"rest", "--set", "-"}));
  EXPECT_TRUE(targets.flag);
}

// The word behind the option is its value, unless it is an option or a configuration.
TEST(Options, AValueThatMayBeLeftOut) {
  const std::vector<std::pair<std::vector<std::string>, std::optional<std::string>>> cases = {
      {{"go", "a.toml"}, std::nullopt},
      {{"go", "a.toml", "--perhaps"}, ""},
      {{"go", "--perhaps", "a.toml"}, ""},
      {{"go", "a.toml", "--perhaps", "--flag"}, ""},
      {{"go", "a.toml", "--perhaps", "x.svg"}, "x.svg"},
      {{"go", "--perhaps", "x.svg", "a.toml"}, "x.svg"},
      {{"go", "a.toml", "--perhaps", "-"}, "-"},
      {{"go", "a.toml", "--perhaps=b.toml"}, "b.toml"},
      {{"go", "a.toml", "--perhaps="}, ""},
  };
  for (const auto& [args, perhaps] : cases) {
    Targets targets;
    const Command root = example(targets);
    const auto parsed = parse_arguments(root, args);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(targets.perhaps, perhaps);
    EXPECT_EQ(targets.word, "a.toml");
    EXPECT_TRUE(targets.rest.empty());
    EXPECT_NE(help_text(*parsed.value().command, "top go", 80).find("--perhaps [FILE]"),
              std::string::npos);
  }
}

TEST(Options, MistakesNameWhatWasMeant) {
  EXPECT_EQ(error_of({"og"}), "top: og is not a command; did you mean go?");
  EXPECT_EQ(error_of({"go", "x", "--numbr", "3"}),
            "top go: --numbr is unknown; did you mean --number?");
  EXPECT_EQ(error_of({"go", "x", "--number", "3x"}), "top go: --number 3x must be an integer");
  EXPECT_EQ(error_of({"go", "x", "--real", "nan"}), "top go: --real nan must be a number");
  EXPECT_EQ(error_of({"go", "x", "--number"}), "top go: --number needs a value, --number N");
  EXPECT_EQ(error_of({"go", "x", "--flag=1"}), "top go: --flag does not take a value");
  EXPECT_EQ(error_of({"go"}), "top go: FIRST is missing");
  EXPECT_EQ(error_of({"go", "x", "--maybe=99999999999"}),
            "top go: --maybe 99999999999 must be an integer");
  EXPECT_EQ(error_of({"go", "--help", "--nonsense"}), "");
}

const Environment kNoEnvironment;

void for_every_command(const Command& command, const std::string& path,
                       const std::function<void(const Command&, const std::string&)>& visit) {
  visit(command, path);
  for (const Command& subcommand : command.subcommands) {
    for_every_command(subcommand, path + " " + subcommand.name, visit);
  }
}

TEST(CommandTable, EveryCommandRunsOrHasSubcommandsAndEveryRowIsWorded) {
  const Command root = command_table(kNoEnvironment);
  for_every_command(root, "trireme", [](const Command& command, const std::string& path) {
    EXPECT_NE(command.run == nullptr, command.subcommands.empty()) << path;
    EXPECT_FALSE(command.summary.empty()) << path;
    // These characters have a meaning in the scripts of `trireme completion`.
    EXPECT_EQ(command.summary.find_first_of("\"$`\\"), std::string::npos) << path;
    std::set<std::string> names = {"help"};
    std::set<char> letters = {'h'};
    for (const Option& option : command.options) {
      EXPECT_TRUE(names.insert(option.name).second) << path << " --" << option.name;
      EXPECT_TRUE(!option.letter || letters.insert(option.letter).second) << path;
      EXPECT_EQ(option.value_name.empty(), is_flag(option)) << path << " --" << option.name;
      EXPECT_FALSE(option.doc.empty()) << path << " --" << option.name;
    }
    // Only the last argument may take all remaining words.
    for (size_t i = 0; i + 1 < command.arguments.size(); ++i) {
      EXPECT_FALSE(is_repeatable(command.arguments[i].target)) << path;
    }
  });
}

TEST(CommandTable, HelpManualAndCompletionNameEveryOption) {
  const Command root = command_table(kNoEnvironment);
  const std::string man = man_page(root, "0");
  const std::string markdown = command_markdown(root);
  for_every_command(root, "trireme", [&](const Command& command, const std::string& path) {
    const std::string help = help_text(command, path, 80);
    EXPECT_NE(help.find("Usage: " + path), std::string::npos);
    for (const Option& option : command.options) {
      EXPECT_NE(help.find("--" + option.name), std::string::npos) << path;
      EXPECT_NE(markdown.find("--" + option.name), std::string::npos) << path;
      for (const char* shell : {"bash", "zsh", "fish"}) {
        EXPECT_NE(completion_script(root, shell).value().find(option.name), std::string::npos);
      }
    }
    for (const Command& subcommand : command.subcommands) {
      EXPECT_NE(help.find("\n  " + subcommand.name), std::string::npos) << path;
    }
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  });
  EXPECT_EQ(man.rfind(".TH TRIREME 1", 0), 0u);
}

struct Ran {
  int code;
  std::string out;
  std::string err;
};
Ran run(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  const int code = run_app(args, kNoEnvironment, io, 80);
  return {code, out.str(), err.str()};
}

TEST(App, AKeyWrittenAsAnOptionIsToldToBeSet) {
  const auto remedy = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"config", "show"});
    std::istringstream lines(run(args).err);
    std::string line;
    std::getline(lines, line);
    return line.substr(line.find("; ") + 2);
  };
  EXPECT_EQ(remedy({"--tp", "2"}), "write --set parallel.tp=2");
  EXPECT_EQ(remedy({"--parallel.tp=2"}), "write --set parallel.tp=2");
  EXPECT_EQ(remedy({"--seq-len"}), "write --set model.seq_len=VALUE");
  EXPECT_EQ(remedy({"--learning-rate", "1e-3"}), "write --set optim.lr=1e-3");
  EXPECT_EQ(remedy({"--schedule", "wsd"}),
            "write --set optim.schedule=wsd or --set parallel.schedule=wsd");
  EXPECT_EQ(remedy({"--rank", "2"}), "did you mean --ranks?");
  EXPECT_EQ(run({"doctor", "--tp", "2"}).err.find("--set"), std::string::npos);
}

TEST(App, AFailureSpeaksOnStandardErrorAloneAndHasItsExitCode) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{},
                                             {"config"},
                                             {"trian"},
                                             {"train"},
                                             {"train", "/nowhere/run.toml"},
                                             {"config", "show", "--set", "model.layer=2"},
                                             {"schedule", "1f2b"},
                                             {"completion", "tcsh"},
                                             {"help", "confg"}}) {
    const Ran ran = run(args);
    EXPECT_EQ(ran.code, 2) << (args.empty() ? "" : args[0]);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err, "");
  }
  EXPECT_EQ(run({"--version"}).code, 0);
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({"help", "config", "show"}).out, run({"config", "show", "--help"}).out);
}

}  // namespace
}  // namespace trireme
