#include "config/config_load.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / fmt::format("trireme-{}", ::getpid())) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (path_ / name).string();
    fs::create_directories(fs::path(path).parent_path());
    EXPECT_TRUE(write_file_atomically(path, text).ok());
    return path;
  }

 private:
  fs::path path_;
};

std::string error_of(const Result<LoadedConfig>& result) {
  return result.ok() ? "" : result.error().message;
}

Result<LoadedConfig> from_text(const std::string& text) {
  return load_config_text(text, "run.toml", {});
}

Result<LoadedConfig> with_overrides(const std::vector<std::string>& overrides) {
  return load_config({.overrides = overrides});
}

// Changes a field to another valid value.
void change(const ConfigField& field) {
  if (auto* choice = std::get_if<ChoiceField>(const_cast<FieldValue*>(&field.value))) {
    choice->set(field.choices.back());
  } else if (auto** text = std::get_if<std::string*>(const_cast<FieldValue*>(&field.value))) {
    **text = field.key() == "trace.ranks"         ? "0,3"
             : field.key() == "parallel.order"    ? "pp,tp,dp,cp"
             : field.key() == "checkpoint.parity" ? "4+2"
                                                  : "a \"b\"\\\n\t\x01 \xc3\xa9";
  } else if (auto* train = std::get_if<MixtureField>(const_cast<FieldValue*>(&field.value))) {
    *train->mixture = {{"a \"b\".tok", 0.25}, {"c.tok", 1.0}};
  } else if (auto* layers = std::get_if<LayersField>(const_cast<FieldValue*>(&field.value))) {
    *layers->rules = {{"stem.conv", LayerStrategy::Spatial},
                      {"conv*", LayerStrategy::Data},
                      {"\"fc\"", LayerStrategy::Tensor}};
  } else if (auto** flag = std::get_if<bool*>(const_cast<FieldValue*>(&field.value))) {
    **flag = !**flag;
  } else if (auto** real = std::get_if<double*>(const_cast<FieldValue*>(&field.value))) {
    **real = **real * 0.7 + 1.0 / 3.0;
  }
}

TEST(LoadConfig, PrintedConfigurationReadsBackToTheSameForEveryField) {
  RunConfig all;
  for (const ConfigField& field : config_fields(all)) {
    if (field.name == "preset") continue;  // a resolved configuration has no preset
    const bool is_bound = field.name == "rope_scaling_factor" || field.name == "min_lr" ||
                          // Only some values are valid, or they depend on other fields.
                          field.name == "loss_scale" || field.name == "skip_samples" ||
                          field.name == "lora_alpha" || field.name == "lora_targets" ||
                          field.name == "qk_clip" || field.name == "stage_dp" ||
                          field.name == "stage_tp" || field.name == "stage_layers";
    if (!is_bound) change(field);
  }
  all.optim.schedule = LrScheduleKind::Wsd;     // "range" contradicts a warm-up
  all.model.router = RouterType::Softmax;       // a sigmoid router contradicts z_loss
  all.model.family = ModelFamily::Moe;          // a net of images contradicts seq_len
  all.data.source = DataSource::Synthetic;      // "images" are for such a net
  all.run.reproducible = Reproducible::Layout;  // "mesh" contradicts parallel.sequence
  all.precision.compute = ComputeChoice::Bf16;  // others contradict optim.master = false
  all.optim.grad_dtype = StateChoice::Fp32;     // "bf16" contradicts model.balance_rate
  const auto loaded = from_text(to_toml(all));
  ASSERT_TRUE(loaded.ok()) << error_of(loaded);
  EXPECT_EQ(to_toml(loaded.value().config), to_toml(all));
}

TEST(LoadConfig, EveryFieldTakesItsOwnValueFromSet) {
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    const auto loaded = with_overrides({field.key() + "=" + toml_text(field)});
    ASSERT_TRUE(loaded.ok()) << error_of(loaded);
    EXPECT_TRUE(loaded.value().config == RunConfig{}) << field.key();
  }
}

TEST(LoadConfig, StringFieldsTakeBareWordsWhateverTheyLookLike) {
  for (const char* word :
       {"true", "12", "1e5", "inf", "2024-01-01", "a/b.tok", "a b", "'q'x", "", "1f1b"}) {
    const auto loaded = with_overrides({std::string("data.train=") + word});
    ASSERT_TRUE(loaded.ok()) << error_of(loaded);
    EXPECT_EQ(loaded.value().config.data.train, word);
  }
  const auto list = with_overrides({"data.train=[{path = \"a.tok\", weight = 2}, {path = \"b\"}]"});
  ASSERT_TRUE(list.ok()) << list.error().message;
  EXPECT_EQ(mixture_text(list->config.data.train_mixture),
            "[{path = \"a.tok\", weight = 2.0}, {path = \"b\", weight = 1.0}]");
  EXPECT_EQ(from_text("[data]\ntrain = [{path = 1}]\n").error().message,
            "run.toml:2: data.train = (array) must be a path, or a list such as "
            "[{path = \"a.tok\", weight = 2.0}]");
  for (const char* list : {"[{path = \"a.tok\", wieght = 2}]",
                           "[{path = \"a.tok\"}, {wieght = 2, path = \"b.tok\"}]"}) {
    const std::string entry = std::string(list).find("}, {") == std::string::npos ? "1" : "2";
    EXPECT_NE(error_of(with_overrides({std::string("data.train=") + list}))
                  .find("data.train = (array whose entry " + entry +
                        " has the unknown key wieght) must be a path, or a list such as [{path"),
              std::string::npos)
        << list;
  }
  EXPECT_NE(error_of(with_overrides({"parallel.layers=[{match = \"fc*\", strategy = \"tensor\"}, "
                                     "{match = \"c*\", strategy = \"datta\"}]"}))
                .find("whose entry 2 has the unknown strategy datta) must be a list such as"),
            std::string::npos);
  for (const char* wrong : {"[]", "[1]", "[{weight = 2}]"}) {
    EXPECT_NE(error_of(with_overrides({std::string("data.train=") + wrong}))
                  .find("must be a path, or a list such as [{path = "),
              std::string::npos)
        << wrong;
  }
  EXPECT_EQ(with_overrides({"data.train=[x"}).value().config.data.train, "[x");
  EXPECT_EQ(with_overrides({"data.train=\"x\\ty\""}).value().config.data.train, "x\ty");
  EXPECT_NE(error_of(with_overrides({"data.train=\xff"})).find("UTF-8"), std::string::npos);
}

TEST(LoadConfig, AMisspeltKeyNamesTheMeantOneWithFileAndLine) {
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    if (field.name.size() < 4) continue;
    std::string name(field.name);
    std::swap(name[1], name[2]);
    if (name == field.name) continue;
    const std::string message = error_of(
        from_text(fmt::format("[{}]\n\n{} = {}\n", field.section, name, toml_text(field))));
    EXPECT_NE(message.find(fmt::format("run.toml:3: {}.{} is unknown; did you mean {}?",
                                       field.section, name, field.key())),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(error_of(from_text("[modle]\nlayers = 1\n")),
            "run.toml:2: modle.layers is unknown; did you mean model.layers?");
  EXPECT_EQ(error_of(from_text("[modle]\n")),
            "run.toml:1: modle is no section; did you mean [model]?");
  EXPECT_EQ(error_of(from_text("layers = 1\n")),
            "run.toml:1: layers is unknown; did you mean model.layers or parallel.layers?");
  EXPECT_EQ(error_of(with_overrides({"paralel.tp=2"})),
            "--set paralel.tp=2: paralel.tp is unknown; did you mean parallel.tp?");
}

TEST(LoadConfig, AKeyByAnotherNameFindsTheOneOfItsSection) {
  const auto remedy = [](const std::string& key) {
    const std::string message = error_of(with_overrides({key + "=1"}));
    return message.substr(message.find("; ") + 2);
  };
  EXPECT_EQ(remedy("model.vocab"), "did you mean model.vocab_size?");
  EXPECT_EQ(remedy("model.num_layers"), "did you mean model.layers?");
  EXPECT_EQ(remedy("model.n_heads"), "did you mean model.heads?");
  EXPECT_EQ(remedy("model.zero"), "did you mean parallel.zero?");
  EXPECT_EQ(remedy("model.schedule"), "did you mean optim.schedule or parallel.schedule?");
  EXPECT_EQ(remedy("optim.learning_rate"), "did you mean optim.lr?");
  EXPECT_EQ(remedy("optim.lerning_rate"), "did you mean optim.lr?");
  EXPECT_EQ(remedy("learning_rate"), "did you mean optim.lr?");
  EXPECT_EQ(remedy("model.hidden_size"), "did you mean model.d_model?");
  EXPECT_EQ(remedy("train.batch_size"), "did you mean batch.global_sequences?");
  EXPECT_EQ(remedy("parallel.tensor_parallel"), "did you mean parallel.tp?");
  EXPECT_EQ(remedy("model.mlp").rfind("[model] has preset, family, layers, ", 0), 0u);
  EXPECT_EQ(remedy("nonsense.whatever").rfind("the sections are model, data, ", 0), 0u);
}

TEST(LoadConfig, EveryFieldRefusesAnArrayAndSaysWhatItWants) {
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    const auto loaded = from_text(fmt::format("{} = [1]\n", field.key()));
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().kind, ErrorKind::Usage);
    EXPECT_EQ(error_of(loaded),
              fmt::format("run.toml:1: {} = (array) must be {}", field.key(), type_name(field)));
  }
}

TEST(LoadConfig, AMisspeltChoiceIsRefusedWhereItIsWrittenWithTheChoices) {
  RunConfig config;
  int num_choices = 0;
  for (const ConfigField& field : config_fields(config)) {
    if (!std::holds_alternative<ChoiceField>(field.value)) continue;
    ++num_choices;
    const std::string_view word =
        field.choices.back().empty() ? field.choices.front() : field.choices.back();
    const auto loaded =
        from_text(fmt::format("[{}]\n{} = \"{}x\"\n", field.section, field.name, word));
    ASSERT_FALSE(loaded.ok()) << field.key();
    EXPECT_EQ(loaded.error().kind, ErrorKind::Usage);
    EXPECT_EQ(error_of(loaded),
              fmt::format("run.toml:2: {} = \"{}x\" is unknown; use {}; did you mean {}?",
                          field.key(), word, or_choices(field.choices), word));
  }
  EXPECT_EQ(num_choices, 23);
  EXPECT_EQ(
      error_of(with_overrides({"model.activation=gelu_tan"})),
      "--set model.activation=gelu_tan: model.activation = \"gelu_tan\" is unknown; use \"\", "
      "gelu_tanh, gelu_erf, relu, relu2 or swiglu; did you mean gelu_tanh?");
}

TEST(LoadConfig, AFileOfAnotherKindSaysWhichCommandReadsIt) {
  const std::string device = "[device]\nname = \"x\"\n", tier = "[tiers.edge]\nlatency_s = 1.0\n";
  const std::string workers = "[workers.board]\nworkers = 3\n", rates = "[rates]\nper_day = 1.0\n";
  EXPECT_NE(error_of(from_text(device + tier)).find("run.toml:2: device.name is a key of"),
            std::string::npos);
  EXPECT_NE(error_of(from_text(tier)).find("--cluster"), std::string::npos);
  EXPECT_NE(error_of(from_text(tier + workers)).find("run.toml:4: workers.board.workers"),
            std::string::npos);
  EXPECT_NE(error_of(from_text(tier + workers)).find("trireme serve-plan"), std::string::npos);
  EXPECT_NE(error_of(from_text(rates)).find("--failures"), std::string::npos);
}

TEST(LoadConfig, AllProblemsComeAtOnce) {
  const std::string message = error_of(from_text(
      "[model]\nheads = 32\nd_model = 256\n[parallel]\ntp = 3\nzero = 7\nschedule = \"zbh1\"\n"));
  EXPECT_NE(
      message.find("run.toml:5: parallel.tp = 3 must divide model.heads = 32; try 1, 2, 4, 8, "
                   "16 or 32"),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("run.toml:6: parallel.zero = 7 is unknown"), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean zb_h1?"), std::string::npos) << message;
}

TEST(LoadConfig, ADegreeOfExpertsNamesTheDataParallelDegreeThatItNeeds) {
  const auto remedy = [](int ep, int dp, int cp) {
    const std::string message = error_of(
        with_overrides({"model.family=moe", "model.experts=8", fmt::format("parallel.ep={}", ep),
                        fmt::format("parallel.dp={}", dp), fmt::format("parallel.cp={}", cp)}));
    return message.substr(message.find("; ") + 2);
  };
  EXPECT_EQ(remedy(2, 1, 1), "set parallel.dp = 2 too, or try 1");
  EXPECT_EQ(remedy(4, 3, 1), "set parallel.dp = 4 too, or try 1");
  EXPECT_EQ(remedy(8, 1, 2), "set parallel.dp = 4 too, or try 1 or 2");
}

TEST(LoadConfig, AFaultOfTheExpertsIsReportedOnce) {
  const auto error_with = [](const std::string& override) {
    return error_of(with_overrides({"model.family=moe", "model.experts=4", override}));
  };
  EXPECT_EQ(error_with("model.top_k=5"),
            "--set model.top_k=5: model.top_k = 5 must be at least 1 and at most 4; try 4");
  EXPECT_EQ(error_with("model.experts=0"),
            "--set model.experts=0: model.experts = 0 must be at least 1 and at most 4096; try 1");
  EXPECT_EQ(error_with("model.shared_experts=-1"),
            "--set model.shared_experts=-1: model.shared_experts = -1 must be at least 0 and at "
            "most 4096; try 0");
  EXPECT_EQ(error_with("model.expert_groups=4"),
            "model.top_k = 2 must not exceed the 1 expert of 1 group; raise model.top_groups, or "
            "try 1");
}

TEST(LoadConfig, ARefusedRateIsReportedOnceAndWhatToTryTrains) {
  EXPECT_EQ(error_of(with_overrides({"optim.lr=-1"})),
            "--set optim.lr=-1: optim.lr = -1.0 must be at least 0; try 0.0006");
  EXPECT_EQ(error_of(with_overrides({"optim.beta2=1"})),
            "--set optim.beta2=1: optim.beta2 = 1.0 must be at least 0 and below 1; try 0.95");
}

TEST(LoadConfig, StateDTypesThatCannotBeCombinedAreRefused) {
  EXPECT_EQ(error_of(with_overrides({"optim.master=false", "precision.compute=fp32"})),
            "--set optim.master=false: optim.master = false leaves out the fp32 copy of 16-bit "
            "weights, but precision.compute = \"fp32\" has fp32 weights and no copy; set "
            "optim.master = true or precision.compute = \"bf16\"");
  EXPECT_EQ(error_of(with_overrides({"optim.master=false", "precision.compute=fp16"})),
            "--set optim.master=false: optim.master = false updates weights in bf16; those in fp16 "
            "have too small a range; set optim.master = true or precision.compute = \"bf16\"");
  EXPECT_EQ(error_of(with_overrides({"model.family=moe", "model.experts=4",
                                     "model.balance_rate=0.001", "optim.grad_dtype=bf16"})),
            "--set optim.grad_dtype=bf16: optim.grad_dtype = \"bf16\" counts exactly up to 256 "
            "only, and with model.balance_rate the visits of every expert are counted in the place "
            "of a gradient; set optim.grad_dtype = \"fp32\" or model.balance_rate = 0.0");
  EXPECT_TRUE(with_overrides({"optim.master=false", "optim.grad_dtype=bf16",
                              "optim.moment_dtype=bf16", "precision.compute=bf16"})
                  .ok());
}

TEST(LoadConfig, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(error_of(from_text("[model]\nlayers = \n")).rfind("run.toml:2:", 0), 0u);
  EXPECT_EQ(error_of(from_text("[model]\nlayers = 1\nlayers = 2\n")).rfind("run.toml:3:", 0), 0u);
}

TEST(LoadConfig, LaterFilesWinThenSetAndTheHistoryKnowsWhy) {
  const TemporaryFolder folder;
  const std::string base = folder.write("base.toml", "[model]\nlayers = 2\nseq_len = 64\n");
  const std::string top = folder.write("top.toml", "[model]\nlayers = 3\n");
  const auto both = load_config({.files = {base, top}});
  ASSERT_TRUE(both.ok()) << error_of(both);
  EXPECT_EQ(both.value().config.model.layers, 3);
  EXPECT_EQ(both.value().config.model.seq_len, 64);
  EXPECT_EQ(both.value().where("model.layers"), top + ":2");
  EXPECT_EQ(both.value().where("model.seq_len"), base + ":3");
  EXPECT_EQ(both.value().where("model.heads"), "default");
  const auto set = load_config({.files = {base, top}, .overrides = {"model.layers=4"}});
  EXPECT_EQ(set.value().config.model.layers, 4);
  EXPECT_EQ(set.value().history.at("model.layers").size(), 3u);
  EXPECT_EQ(load_config({.files = {top, base}}).value().config.model.layers, 2);
}

TEST(LoadConfig, APresetLiesRightBelowTheLayerThatNamesItAndIsResolvedAway) {
  const TemporaryFolder folder;
  const std::string model = folder.write("models/small.toml", "[model]\nlayers = 7\nheads = 8\n");
  const std::string run = folder.write("run.toml", "[model]\nheads = 2\npreset = \"small\"\n");
  const auto loaded = load_config({.files = {run}});
  ASSERT_TRUE(loaded.ok()) << error_of(loaded);
  EXPECT_EQ(loaded.value().config.model.layers, 7);
  EXPECT_EQ(loaded.value().config.model.heads, 2);
  EXPECT_EQ(loaded.value().config.model.preset, "");
  EXPECT_EQ(loaded.value().preset, "small");
  EXPECT_EQ(loaded.value().where("model.layers"), model + ":2");
  // A preset named above a file replaces the file's model and nothing else.
  const std::string other = folder.write("other.toml", "model.d_model = 64\nrun.steps = 9\n");
  const auto replaced =
      load_config({.files = {other}, .overrides = {"model.preset=small", "model.heads=1"}});
  ASSERT_TRUE(replaced.ok()) << error_of(replaced);
  EXPECT_EQ(replaced.value().config.model.layers, 7);
  EXPECT_EQ(replaced.value().config.model.d_model, ModelConfig{}.d_model);
  EXPECT_EQ(replaced.value().config.model.heads, 1);
  EXPECT_EQ(replaced.value().config.run.steps, 9);
  const auto misspelt = load_config({.files = {run}, .overrides = {"model.preset=smal"}});
  EXPECT_NE(error_of(misspelt).find("did you mean small?"), std::string::npos)
      << error_of(misspelt);
  folder.write("models/wrong.toml", "[run]\nsteps = 7\n");
  const auto wrong = load_config({.files = {run}, .overrides = {"model.preset=wrong"}});
  EXPECT_NE(error_of(wrong).find("wrong.toml:2: run.steps"), std::string::npos) << error_of(wrong);
}

TEST(LoadConfig, ALaterBatchSizeReplacesTheEarlierOneInTheOtherUnit) {
  const TemporaryFolder folder;
  const std::string run =
      folder.write("run.toml", "[batch]\nglobal_sequences = 16\nmicro_sequences = 2\n");
  const auto tokens = load_config({.files = {run}, .overrides = {"batch.global_tokens=1024"}});
  ASSERT_TRUE(tokens.ok()) << error_of(tokens);
  EXPECT_EQ(tokens.value().config.batch.global_sequences, 0);
  const auto both = load_config(
      {.files = {run}, .overrides = {"batch.global_tokens=1024", "batch.global_sequences=16"}});
  EXPECT_NE(error_of(both).find("contradicts"), std::string::npos) << error_of(both);
}

TEST(LoadConfig, RanksDeriveDpOrMustAgreeWithIt) {
  const auto load = [](std::vector<std::string> overrides, int ranks) {
    return load_config({.overrides = std::move(overrides), .ranks = ranks});
  };
  for (const int ranks : {1, 2, 3, 4, 8}) {
    EXPECT_EQ(load({}, ranks).value().config.parallel.dp, ranks);
    const auto split = load({"parallel.tp=2"}, ranks);
    if (ranks % 2 == 0) {
      EXPECT_EQ(split.value().config.parallel.dp, ranks / 2);
    } else {
      EXPECT_EQ(split.error().kind, ErrorKind::Usage);
    }
    EXPECT_EQ(load({"parallel.dp=2", "parallel.tp=2"}, ranks).ok(), ranks == 4);
  }
  EXPECT_FALSE(load({}, 0).ok());
  const auto remedy = [&](int ranks) {
    const std::string message = error_of(load({"parallel.tp=4"}, ranks));
    return message.substr(message.find("; ") + 2);
  };
  EXPECT_EQ(remedy(3), "try 4");
  EXPECT_EQ(remedy(7), "try 4 or 8");
  const auto launched =
      load_config({.overrides = {"parallel.tp=2"}, .ranks = 3, .ranks_option = "mpirun -n"});
  EXPECT_EQ(error_of(launched).rfind("mpirun -n 3: must be a multiple", 0), 0u);
}

TEST(LoadConfig, WhatThePlanRefusesIsLocatedLikeAProblemOfTheFile) {
  const auto loaded = from_text("[model]\nvocab_size = 100\n");
  ASSERT_TRUE(loaded.ok()) << error_of(loaded);
  const auto located = [&](const std::string& message) {
    return loaded.value().located({ErrorKind::Usage, message}).message;
  };
  EXPECT_EQ(located("model.vocab_size = 100 is smaller"),
            "run.toml:2: model.vocab_size = 100 is smaller");
  EXPECT_EQ(located("model.layers = 4 is wrong"), "model.layers = 4 is wrong");
  EXPECT_EQ(located("no memory"), "no memory");
}

TEST(LoadConfig, SlicesOfTheMeshAreRefusedForExpertsWhereTheyAreWritten) {
  const std::string message =
      error_of(from_text("[model]\nfamily = \"moe\"\n[run]\nreproducible = \"mesh\"\n"));
  EXPECT_EQ(message.rfind("run.toml:4: run.reproducible = \"mesh\" is for model.family = ", 0), 0u)
      << message;
}

TEST(LoadConfig, SlicesOfTheMeshAreRefusedWithSequenceParallelismWhereTheyAreWritten) {
  const auto loaded = from_text("[parallel]\nsequence = true\n[run]\nreproducible = \"mesh\"\n");
  EXPECT_EQ(loaded.error().kind, ErrorKind::Usage);
  EXPECT_EQ(
      error_of(loaded),
      "run.toml:4: run.reproducible = \"mesh\" with parallel.sequence = true would sum "
      "gradients of norms over micro-batches before tp ranks; set parallel.sequence = false or "
      "take \"layout\"");
}

TEST(LoadConfig, AnOrderThatIsNoPermutationOfTheAxesIsRefusedWhereItIsWritten) {
  for (const auto& [order, why] : {std::pair{"tp,cp,dp", "does not name pp"},
                                   {"tp,cp,dp,dp", "names dp twice"},
                                   {"tp,cp,dp,zz", "names the unknown axis \"zz\""}}) {
    EXPECT_EQ(error_of(from_text(fmt::format("[parallel]\norder = \"{}\"\n", order))),
              fmt::format("run.toml:2: parallel.order = \"{}\" {}; name each of tp, cp, pp and dp "
                          "once, innermost first, such as \"tp,cp,pp,dp\"",
                          order, why));
  }
}

TEST(LoadConfig, AMissingFileNamesItsNeighbour) {
  const TemporaryFolder folder;
  const std::string run = folder.write("tiny.toml", "");
  const auto loaded = load_config({.files = {run.substr(0, run.size() - 9) + "tiyn.toml"}});
  EXPECT_NE(error_of(loaded).find("did you mean " + run), std::string::npos) << error_of(loaded);
}

TEST(LoadConfig, AKeyAmongTheFilesIsToldToBeSet) {
  EXPECT_EQ(error_of(load_config({.files = {"parallel.tp=2"}})),
            "parallel.tp=2: no such file; write --set parallel.tp=2");
  EXPECT_EQ(error_of(load_config({.files = {"seq-len=2"}})),
            "seq-len=2: no such file; write --set model.seq_len=2");
  EXPECT_EQ(error_of(load_config({.files = {"a=b"}})), "a=b: no such file");
}

}  // namespace
}  // namespace trireme
