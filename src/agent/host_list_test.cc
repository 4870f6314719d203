#include "agent/host_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

TEST(HostList, ReadsNamesAndSlots) {
  const auto hosts = hosts_in("a,user@b.example:2,c-1");
  ASSERT_TRUE(hosts.ok());
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[1].name, "user@b.example");
  EXPECT_EQ((*hosts)[1].slots, 2);
  EXPECT_EQ((*hosts)[2].slots, 0);
}

TEST(HostList, RefusesWhatIsNoHost) {
  for (const char* list : {"", "a,,b", "a:0", "a:-1", "a:x", "a:", ":2", "-oProxyCommand=x", "a b",
                           "a;reboot", "a,b,a", "a:5000", "a:2:3"}) {
    const auto hosts = hosts_in(list);
    ASSERT_FALSE(hosts.ok()) << list;
    EXPECT_EQ(hosts.error().kind, ErrorKind::Usage) << list;
  }
}

TEST(HostList, AFileNamesTheLineOfAnError) {
  const std::string path = testing::TempDir() + "hosts" + std::to_string(::getpid());
  { std::ofstream(path) << "# all\n\na slots=2 domain=rack-1 # big\n b:3\nc domain=r.2 slots=1\n"; }
  const auto hosts = hosts_in_file(path);
  ASSERT_TRUE(hosts.ok()) << hosts.error().message;
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].slots, 2);
  EXPECT_EQ((*hosts)[1].slots, 3);
  EXPECT_EQ((*hosts)[0].domain, "rack-1");
  EXPECT_EQ((*hosts)[1].domain, "");
  EXPECT_EQ((*hosts)[2].domain, "r.2");
  EXPECT_EQ((*hosts)[2].slots, 1);
  for (const char* line : {"b slots=0", "b slots=2 x", "b:1 slots=1", "b cores=2", "a", "b;c",
                           "b domain=", "b domain=a;b", "b domain=x domain=y"}) {
    { std::ofstream(path) << "a\n" << line << "\n"; }
    const auto wrong = hosts_in_file(path);
    ASSERT_FALSE(wrong.ok()) << line;
    EXPECT_TRUE(wrong.error().message.starts_with(path + ":2")) << wrong.error().message;
  }
  { std::ofstream(path) << "# nobody\n"; }
  EXPECT_FALSE(hosts_in_file(path).ok());
  std::filesystem::remove(path);
  const auto missing = hosts_in_file(path);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::Usage) << missing.error().message;
}

}  // namespace
}  // namespace trireme
