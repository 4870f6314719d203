#include "config/foreign_key.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schema/run_config_fields.h"

namespace trireme {
namespace {

TEST(ForeignKey, WhatOthersCallSoIsAKeyOfRunToml) {
  RunConfig config;
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields(config)) keys.push_back(field.key());
  for (const std::string_view name : foreign_key_names()) {
    const std::string key = key_of_foreign_name(name);
    EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << name << " -> " << key;
    EXPECT_EQ(key_near_foreign_name(name), key);
  }
  EXPECT_EQ(key_of_foreign_name("learning-rate"), "optim.lr");
  EXPECT_EQ(key_of_foreign_name("lerning_rate"), "");
  EXPECT_EQ(key_near_foreign_name("lerning_rate"), "optim.lr");
  EXPECT_EQ(key_near_foreign_name("whatever"), "");
}

}  // namespace
}  // namespace trireme
