#include "base/sealed_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

TEST(SealedJson, IsTheSameObjectWithItsChecksum) {
  const std::string sealed = seal_json("{\"step\":3}\n");
  EXPECT_TRUE(check_seal(sealed).ok());
  const auto json = parse_json(sealed);
  EXPECT_EQ(json["step"], 3);
  EXPECT_EQ(json["checksum"].get<std::string>().size(), 16u);
}

TEST(SealedJson, EveryChangedMissingOrAddedByteIsNoticed) {
  const std::string sealed = seal_json("{\"step\":3,\"name\":\"a b\"}");
  for (size_t at = 0; at < sealed.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = sealed;
      changed[at] = static_cast<char>(byte);
      ASSERT_EQ(check_seal(changed).ok(), changed == sealed) << at << ' ' << byte;
    }
    EXPECT_FALSE(check_seal(sealed.substr(0, at)).ok()) << at;
    EXPECT_FALSE(check_seal(sealed.substr(at + 1)).ok()) << at;
  }
  EXPECT_FALSE(check_seal(sealed + "\n").ok());
}

}  // namespace
}  // namespace trireme
