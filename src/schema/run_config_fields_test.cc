#include "schema/run_config_fields.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "schema/run_config_text.h"

namespace trireme {
namespace {

// Converts to any type, so that T{Any, Any, ...} shows how many members T has.
struct Any {
  template <typename T>
  operator T() const;
};

struct Address {
  template <typename T>
  const void* operator()(const T* value) const {
    return value;
  }
  const void* operator()(const ChoiceField& field) const { return field.value; }
  const void* operator()(const StepsField& field) const { return field.value; }
  const void* operator()(const MixtureField& field) const { return field.file; }
  const void* operator()(const LayersField& field) const { return field.rules; }
};

template <typename T, size_t... I>
constexpr bool has_members(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Any{})...}; };
}
template <typename T, size_t N = 64>
constexpr size_t num_members() {
  if constexpr (has_members<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return num_members<T, N - 1>();
  }
}

TEST(ConfigFields, TableHoldsEveryMemberOfEverySection) {
  RunConfig config;
  std::map<std::string_view, size_t> listed;
  std::set<std::string> keys;
  std::set<const void*> addresses;
  for (const ConfigField& field : config_fields(config)) {
    ++listed[field.section];
    keys.insert(field.key());
    addresses.insert(std::visit(Address{}, field.value));
    EXPECT_FALSE(field.doc.empty()) << field.key();
  }
  EXPECT_EQ(keys.size(), addresses.size());
  const std::map<std::string_view, size_t> members = {
      {"model", num_members<ModelConfig>()},
      {"data", num_members<DataConfig>() - 1} /* one key for train and train_mixture */,
      {"batch", num_members<BatchConfig>()},
      {"optim", num_members<OptimConfig>()},
      {"parallel", num_members<ParallelConfig>()},
      {"memory", num_members<MemoryConfig>()},
      {"precision", num_members<PrecisionConfig>()},
      {"checkpoint", num_members<CheckpointConfig>()},
      {"run", num_members<RunSection>()},
      {"trace", num_members<TraceConfig>()},
  };
  EXPECT_EQ(listed, members);
  EXPECT_EQ(listed.size(), num_members<RunConfig>());
  EXPECT_EQ(listed.size(), config_sections().size());
}

TEST(ConfigFields, DefaultsAreAmongTheChoices) {
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    if (field.choices.empty()) continue;
    std::string value = toml_text(field);
    if (value.front() == '"') value = value.substr(1, value.size() - 2);
    EXPECT_NE(std::find(field.choices.begin(), field.choices.end(), value), field.choices.end())
        << field.key();
  }
}

TEST(ConfigText, NumbersKeepTheirTypeAndValue) {
  RunConfig config;
  config.optim.lr = 6e-4;
  config.optim.eps = 1e-8;
  config.model.rope_theta = 500000.0;
  const std::string text = to_toml(config);
  EXPECT_NE(text.find("\nlr = 0.0006\n"), std::string::npos);
  EXPECT_NE(text.find("\neps = 1e-08\n"), std::string::npos);
  EXPECT_NE(text.find("\nrope_theta = 500000.0\n"), std::string::npos);
  EXPECT_NE(text.find("\nsample_prompt = \"\\n\"\n"), std::string::npos);
}

TEST(ConfigText, EqualityLooksAtEveryField) {
  RunConfig changed;
  EXPECT_TRUE(changed == RunConfig{});
  for (const ConfigField& field : config_fields(changed)) {
    const RunConfig before = changed;
    std::visit(
        [](auto value) {
          using T = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<T, StepsField>) {
            *value.value += 1;
          } else if constexpr (std::is_same_v<T, MixtureField>) {
            value.mixture->push_back({"x", 0.5});
          } else if constexpr (std::is_same_v<T, LayersField>) {
            value.rules->push_back({"x", LayerStrategy::Data});
          } else if constexpr (std::is_same_v<T, ChoiceField>) {
            *value.value = static_cast<unsigned char>((*value.value + 1) % value.names.size());
          } else if constexpr (std::is_same_v<T, std::string>) {
            *value += "x";
          } else if constexpr (std::is_same_v<T, bool>) {
            *value = !*value;
          } else {
            *value += 1;
          }
        },
        field.value);
    EXPECT_FALSE(changed == before) << field.key();
    EXPECT_NE(to_json(changed), to_json(before)) << field.key();
  }
}

}  // namespace
}  // namespace trireme
