#include "config/toml_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/bounded_child.h"
#include "base/file.h"
#include "config/cluster_file.h"
#include "config/config_load.h"

namespace trireme {
namespace {

std::string dotted(int levels) {
  std::string key = "a";
  for (int level = 1; level < levels; ++level) key += ".a";
  return key;
}

std::string message_of(const Status& status) { return status.ok() ? "" : status.error().message; }

TEST(TomlLimits, WaysOfNestingAddUp) {
  const std::string half = dotted(30), rest = dotted(40);
  EXPECT_EQ(message_of(check_toml_limits("[" + half + "]\nb = 1\n" + half + " = 2\n")), "");
  for (const std::string& text :
       {dotted(100) + " = 1\n", "[" + dotted(100) + "]\n", "[[" + dotted(100) + "]]\n",
        "[" + half + "]\n" + rest + " = 1\n", "[" + half + "]\nx = {" + rest + " = 1}\n",
        half + " = {" + half + " = {" + half + " = 1}}\n", "x = " + std::string(100, '['),
        "x = [\n" + std::string(100, '{'),
        // Quotes inside a block string must not begin another string.
        "x = [\"\"\"b\"\"\"\"\", {" + dotted(100) + " = 1}]\n",
        "x = ['''b''''', {" + dotted(100) + " = 1}]\n"}) {
    const Status status = check_toml_limits(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().kind, ErrorKind::Usage);
    EXPECT_NE(message_of(status).find("64 levels"), std::string::npos) << message_of(status);
  }
}

TEST(TomlLimits, DotsAndBracketsInStringsAndCommentsCountForNothing) {
  const std::string dots(200, '.'), brackets(200, '[');
  for (const std::string& text :
       {"x = \"" + dots + brackets + "\\\"" + dots + "\"\n", "x = '" + dots + "\\'\n",
        "x = \"\"\"\n" + dots + "\n\"" + brackets + "\"\"\"\n", "# it's " + dots + brackets + "\n",
        "x = 1.5 # " + dots + "\ny = [" + std::string("1.5, ") + "2.5]\n"}) {
    EXPECT_EQ(message_of(check_toml_limits(text)), "") << text;
  }
}

// Every path to the parser is guarded: a run, a model file, a cluster, --set.
TEST(TomlLimits, FortyThousandLevelsAreRefusedEverywhere) {
  const std::string text = dotted(40000) + " = 1\n";
  const std::string path =
      (std::filesystem::temp_directory_path() / ("toml_limits." + std::to_string(::getpid())))
          .string();
  ASSERT_TRUE(write_file_atomically(path, text).ok());
  const ChildOutcome outcome = run_in_child([&] {
    std::string outputs;
    for (const ErrorKind kind :
         {load_config({.files = {path}}).error().kind,
          load_config_text(text, "resolved", {}).error().kind,
          load_config({.overrides = {text}}).error().kind,
          load_config({.overrides = {"model.layers={" + dotted(40000) + "=1}"}}).error().kind,
          parse_hardware(text, "cluster").error().kind, load_hardware(path).error().kind}) {
      outputs += kind == ErrorKind::Usage ? "2" : "?";
    }
    return outputs;
  });
  std::filesystem::remove(path);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.output, "222222");
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
}

TEST(TomlLimits, ManyKeysAndLongKeysAreRefusedSoon) {
  std::string many = "[model]\n";
  for (int i = 0; i < 100000; ++i) many += fmt::format("k{}=1\n", i);
  const std::string longest = "[model]\n" + std::string(900000, 'k') + " = 1\n";
  const ChildOutcome outcome = run_in_child([&] {
    for (const std::string& text : {many, longest, std::string(size_t{2} << 20, '#')}) {
      if (load_config_text(text, "run", {}).ok()) return std::string("read");
    }
    return load_config({.overrides = {std::string(900000, 'k') + "=1"}}).error().message;
  });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_NE(outcome.output.find("a key of more than 256 bytes"), std::string::npos)
      << outcome.output;
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
}

TEST(RegularFiles, APipeThatNobodyWritesToIsRefusedAtOnce) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fifo." + std::to_string(::getpid()))).string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const ChildOutcome outcome = run_in_child(
      [&] {
        return load_config({.files = {path}}).error().message +
               read_text_file(path).error().message;
      },
      20);
  std::filesystem::remove(path);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_NE(outcome.output.find("not a regular file"), std::string::npos) << outcome.output;
  EXPECT_FALSE(read_text_file("/dev/zero").ok());
  EXPECT_FALSE(read_text_file("/tmp").ok());
}

}  // namespace
}  // namespace trireme
