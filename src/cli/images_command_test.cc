#include "cli/images_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"

namespace trireme {
namespace {

TEST(ImagesCommand, CountsTheImagesOfEveryClassOnAnyNumberOfThreads) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("trireme_images_command_test." + std::to_string(::getpid()) + ".csv");
  std::string pixels, table;
  for (int i = 0; i < 64; ++i) pixels += "7,";
  for (int i = 0; i < 100; ++i) table += pixels + (i % 4 == 0 ? "3\n" : "8\n");
  std::ofstream(path) << table;
  for (int threads : {1, 2, 5}) {
    std::ostringstream out, err;
    const auto status =
        run_data_images({.path = path, .num_threads = threads, .json = true}, out, err);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto object = parse_json(out.str());
    EXPECT_EQ(object["images"], 100);
    EXPECT_EQ(object["height"], 8);
    EXPECT_EQ(object["classes"][3]["images"], 25);
    EXPECT_EQ(object["classes"][8]["images"], 75);
    EXPECT_EQ(object["classes"][0]["images"], 0);
  }
  std::filesystem::remove(path);
}

TEST(ImagesCommand, NamesWhatCannotBeRead) {
  std::ostringstream out, err;
  const auto missing = run_data_images({.path = "/nowhere/digits.csv"}, out, err);
  EXPECT_EQ(missing.error().kind, ErrorKind::Usage);
  EXPECT_EQ(missing.error().message, "/nowhere/digits.csv: no such file or folder");
  const auto wrong = run_data_images({.path = "x", .size = 0}, out, err);
  EXPECT_EQ(wrong.error().message, "--size 0 must be from 1 to 4096");
}

}  // namespace
}  // namespace trireme
