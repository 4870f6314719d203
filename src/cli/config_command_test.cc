#include "cli/config_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "cli/app.h"
#include "cli/repository.h"
#include "program/make_schedule.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

std::string output_of(const std::vector<std::string>& args, int expected_code = 0) {
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err, .model_folders = {(kRoot / "models").string()}};
  EXPECT_EQ(run_app(args, {}, io, 80), expected_code) << err.str();
  return out.str();
}

TEST(Docs, ConfigurationPageIsTheTableOfFields) {
  const auto page = read_text_file((kRoot / "docs" / "configuration.md").string());
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page.value(), output_of({"config", "docs"}))
      << "trireme config docs > docs/configuration.md";
}

TEST(Docs, CommandPageEndsWithTheTableOfCommands) {
  const auto page = read_text_file((kRoot / "docs" / "cli.md").string());
  ASSERT_TRUE(page.ok()) << page.error().message;
  const std::string marker = "<!-- trireme help --markdown -->\n";
  const size_t begin = page.value().find(marker);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(page.value().substr(begin + marker.size()), output_of({"help", "--markdown"}))
      << "replace what follows the marker by the output of trireme help --markdown";
}

TEST(ConfigFields, ScheduleChoicesAreTheSchedulesThatThereAre) {
  RunConfig config;
  std::vector<std::string> kinds = schedule_kinds();
  kinds.push_back("auto");
  std::sort(kinds.begin(), kinds.end());
  for (const ConfigField& field : config_fields(config)) {
    if (field.key() != "parallel.schedule") continue;
    std::vector<std::string> choices(field.choices.begin(), field.choices.end());
    std::sort(choices.begin(), choices.end());
    EXPECT_EQ(choices, kinds);
  }
}

TEST(ConfigShow, IsAFixedPoint) {
  const std::string shown =
      output_of({"config", "show", "--set", "model.preset=llama3-8b", "--set", "optim.lr=1.1e-3"});
  const std::string file = testing::TempDir() + "/shown.toml";
  ASSERT_TRUE(write_file_atomically(file, shown).ok());
  EXPECT_EQ(output_of({"config", "show", file}), shown);
  EXPECT_EQ(output_of({"config", "diff", file, file}), "");
  std::filesystem::remove(file);
}

TEST(ConfigDiff, NamesEveryKeyThatDiffersAndWhatItCanChange) {
  const std::string run = (kRoot / "configs" / "tiny-gpt2.toml").string();
  EXPECT_EQ(output_of({"config", "diff", run, "--set", "model.layers=5", "--set",
                       "memory.recompute=full", "--set", "parallel.dp=2"}),
            "model.layers: 4 -> 5  # results\n"
            "parallel.dp: 1 -> 2  # results unless run.reproducible = \"layout\" or \"mesh\"\n"
            "memory.recompute: \"none\" -> \"full\"  # speed only\n");
}

TEST(ConfigExplain, SaysWhereEachValueComesFromAndWhatItReplaced) {
  const std::string run = (kRoot / "configs" / "tiny-gpt2.toml").string();
  const std::string text = output_of({"config", "explain", run, "--set", "model.layers=5"});
  EXPECT_NE(text.find("# --set model.layers=5; replaces 4 (" + run + ":4), default 4"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("micro-batches that a rank accumulates = 8"), std::string::npos) << text;
}

TEST(ConfigExplain, OfAKeySaysWhatItIsForAndItsValue) {
  const std::string row =
      "parallel.tp: tensor-parallel degree: splits attention heads and the hidden units of the "
      "MLP; in nets of images, the images at convolutions and the units of dense layers\n"
      "  an integer, default 1; changes results unless run.reproducible = \"mesh\"\n";
  EXPECT_EQ(output_of({"config", "explain", "parallel.tp"}), row);
  EXPECT_EQ(output_of({"help", "parallel.tp"}), row);
  EXPECT_EQ(
      output_of({"config", "explain", "parallel.tp", "--set", "parallel.tp=2"}),
      row + "parallel.tp = 2                       # --set parallel.tp=2; replaces default 1\n");
  EXPECT_EQ(output_of({"help", "memory.recompute"}),
            "memory.recompute: activations that the backward pass computes again instead of "
            "keeping them; none: no activations; selective: the cheap ones; full: whole layers; "
            "fit: the cheapest ones with which the plan keeps within the memory limit\n  "
            "one of none, selective, full, fit, default \"none\"; "
            "changes speed "
            "only\n");
  EXPECT_EQ(output_of({"help", "parallel.tpp"}, 2), "");
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    EXPECT_NE(output_of({"help", field.key()}).find(field.doc), std::string::npos) << field.key();
  }
}

}  // namespace
}  // namespace trireme
