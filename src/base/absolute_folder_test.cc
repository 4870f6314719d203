#include "base/absolute_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trireme {
namespace {

TEST(AbsoluteFolder, IsTheSameForEverySpellingAndEndsInTheNameOfTheFolder) {
  const std::string expected = (std::filesystem::current_path() / "out" / "run").string();
  for (const char* path : {"out/run", "out/run/", "./out//run//", "out/x/../run/", "out/run/."}) {
    EXPECT_EQ(absolute_folder(path), expected) << path;
  }
  EXPECT_EQ(absolute_folder("/a/b/"), "/a/b");
  EXPECT_EQ(absolute_folder("/"), "/");
}

}  // namespace
}  // namespace trireme
