#include "formats.h"

#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "compile/stage_cost.h"
#include "config/cluster_file.h"
#include "config/config_load.h"
#include "data/foreign_token_file.h"
#include "data/text_reader.h"
#include "data/token_file.h"
#include "data/token_file_writer.h"
#include "interchange/foreign_model.h"
#include "interchange/interchange_fixture.h"
#include "interchange/peft_adapters.h"
#include "observe/report.h"
#include "schema/hardware.h"
#include "schema/run_config_text.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/foreign_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::string why(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

void must(const Status& status) { TRIREME_CHECK(status.ok(), status.error().message); }
void write(const std::string& path, std::string_view text) {
  must(write_file_atomically(path, text));
}

std::unique_ptr<Tokenizer> small_tokenizer() {
  const auto byte = [](char c) { return BpeTokenizer::token_of_byte(uint8_t(c)); };
  auto made = BpeTokenizer::make({{byte('t'), byte('h')}, {256, byte('e')}, {byte(' '), 257}});
  return std::make_unique<BpeTokenizer>(std::move(*made));
}

InterchangeModel model_with_tokenizer(const std::string& name) {
  ModelConfig config = small_model(name);
  config.vocab_size = 260;
  InterchangeModel model{.config = config, .weights = Weights(*resolve_model(config, 0))};
  for (const ParamSpec& param : model.weights.params()) {
    for (float& value : model.weights.at(param.name)) value = 0.25f;
  }
  model.tokenizer = small_tokenizer();
  return model;
}

std::string english() {
  std::string text;
  for (int line = 0; line < 40; ++line) text += "the cat and the other cat sat there\n";
  return text;
}

std::string json_lines() {
  std::string text;
  for (int line = 0; line < 20; ++line) {
    text += "{\"id\": " + std::to_string(line) +
            ", \"tags\": [1, 2.5e3, null, {\"a\": true}], "
            "\"text\": \"the \\u00e9 cat\\n\"}\n";
  }
  return text;
}

std::string gzipped(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  TRIREME_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = uInt(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstandard(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string read_text(const std::string& path) {
  auto reader = TextReader::open({.paths = {path}});
  if (!reader.ok()) return reader.error().message;
  TextBatch batch;
  for (;;) {
    batch = {};
    const auto more = reader->read(batch, 1 << 20);
    if (!more.ok()) return more.error().message;
    if (!*more) return "";
  }
}

std::string read_tokens(const std::string& path) {
  const auto file = TokenFile::open(path);
  return file.ok() ? why(file->verify()) : file.error().message;
}

// Opens a checkpoint as generate, export and resume do, and checks all its checksums.
std::string read_checkpoint(const std::string& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) return checkpoint.error().message;
  std::string problems;
  for (const std::string& problem : checkpoint->verify(1)) problems += problem + "\n";
  const auto text = checkpoint->read_attached("config.resolved.toml");
  if (!text.ok()) return problems + text.error().message;
  const auto config = load_config_text(*text, "config", {});
  if (!config.ok()) return problems + config.error().message;
  return problems + why(read_checkpoint_model(*checkpoint, config->config.model, 1));
}

std::string sealed_index(std::string text) {
  const std::string key = ",\n\"checksum\":\"";
  const std::string body = text.substr(0, text.rfind(key));
  return body + key + hex64(hash64(body)) + "\"}\n";
}

std::string sealed_header(std::string bytes) {
  const size_t end = bytes.rfind('}');
  if (bytes.size() < 9 || end == std::string::npos || end < 8) return bytes;
  const uint64_t length = end - 7;
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

struct Maker {
  std::string root;
  std::vector<CraftedFormat> formats;

  // Adds a format: creates its folder, and `make` fills it.
  CraftedFormat& add(const std::string& name, const std::string& file,
                     const std::function<void(const std::string& folder)>& make,
                     const std::function<std::string(const std::string& folder)>& read) {
    const std::string folder = root + "/" + name;
    fs::create_directories(folder);
    make(folder);
    formats.push_back({name, folder, file, [read, folder] { return read(folder); }, nullptr});
    return formats.back();
  }
  CraftedFormat& add_file(const std::string& name, const std::string& file,
                          const std::string& content,
                          const std::function<std::string(const std::string& path)>& read) {
    return add(
        name, file, [&](const std::string& folder) { write(folder + "/" + file, content); },
        [read, file](const std::string& folder) { return read(folder + "/" + file); });
  }
};

void add_configurations(Maker& maker) {
  maker.add_file("run", "run.toml", to_toml(RunConfig{.model = small_model("gpt2")}),
                 [](const std::string& path) { return why(load_config({.files = {path}})); });
  maker.add_file("cluster", "cluster.toml", to_toml(nominal_hardware()),
                 [](const std::string& path) { return why(load_hardware(path)); });
}

void add_tokenizers(Maker& maker) {
  const auto read = [](const std::string& path) { return why(load_tokenizer(path)); };
  maker.add_file("tokenizer", "tokenizer.json", small_tokenizer()->to_json(), read);
  const auto make = [](const std::string& folder) {
    must(write_hugging_face_tokenizer(*small_tokenizer(), 16, folder));
  };
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    maker.add(std::string("hf_") + file, file, make, read);
  }
  for (const char* file : {"vocab.json", "merges.txt"}) {
    maker.add(std::string("hf_") + file, file, make,
              [read](const std::string& folder) { return read(folder + "/vocab.json"); });
  }
}

void add_texts(Maker& maker) {
  maker.add_file("text_gz", "text.txt.gz", gzipped(english()), read_text);
  maker.add_file("text_zst", "text.txt.zst", zstandard(english()), read_text);
  maker.add_file("jsonl", "text.jsonl", json_lines(), read_text);
  maker.add(
      "token_file", "train.tok",
      [](const std::string& folder) {
        auto writer = TokenFileWriter::create(folder + "/train.tok", 300, 7);
        std::vector<int32_t> tokens;
        for (int i = 0; i < 500; ++i) tokens.push_back(i % 300);
        must(writer->append(tokens));
        TRIREME_CHECK(writer->finish({1, 500}).ok(), "");
      },
      [](const std::string& folder) { return read_tokens(folder + "/train.tok"); });
}

void add_models(Maker& maker) {
  const auto add = [&](const std::string& name, const std::string& kind, ForeignFormat format,
                       const std::string& written, const std::string& file) {
    return &maker.add(
        name, file,
        [&](const std::string& folder) {
          must(write_foreign_model(model_with_tokenizer(kind), folder + written,
                                   {.format = format, .max_shard_bytes = 20000}));
        },
        [written](const std::string& folder) { return why(read_foreign_model(folder + written)); });
  };
  add("gguf", "llama", ForeignFormat::Gguf, "/model.gguf", "model.gguf");
  add("gguf_gpt2", "gpt2", ForeignFormat::Gguf, "/model.gguf", "model.gguf");
  add("llmc", "gpt2", ForeignFormat::Llmc, "/model.bin", "model.bin");
  add("hf_config", "llama", ForeignFormat::HuggingFace, "", "config.json");
  add("hf_mixtral_config", "mixtral", ForeignFormat::HuggingFace, "", "config.json");
  add("hf_index", "llama", ForeignFormat::HuggingFace, "", "model.safetensors.index.json");
  add("hf_shard", "llama", ForeignFormat::HuggingFace, "", "model-00001-of-00003.safetensors")
      ->seal = sealed_header;
}

// Adapters in the format of PEFT, read onto the model that they are of.
void add_adapters(Maker& maker) {
  const auto make = [](const std::string& folder) {
    InterchangeModel model = model_with_tokenizer("llama");
    model.config.lora_rank = 2;
    model.weights = Weights(*resolve_model(model.config, 0));
    must(write_peft_adapters(model, folder + "/peft", DType::F32));
  };
  const auto read = [](const std::string& folder) {
    return why(read_peft_adapters(model_with_tokenizer("llama"), folder + "/peft"));
  };
  maker.add("peft_config", "peft/adapter_config.json", make, read);
  maker.add("peft_weights", "peft/adapter_model.safetensors", make, read).seal = sealed_header;
}

void add_checkpoints(Maker& maker) {
  const auto make = [](const std::string& folder) {
    const InterchangeModel model = model_with_tokenizer("llama");
    RunConfig config;
    config.model = model.config;
    must(write_checkpoint_model(model, {.config_toml = to_toml(config)}, folder));
  };
  maker.add("index", "index.json", make, read_checkpoint).seal = sealed_index;
  for (const char* file : {"config.resolved.toml", "tokenizer.json"}) {
    maker.add(std::string("checkpoint_") + file, file, make, read_checkpoint);
  }
}

void add_reports(Maker& maker) {
  const auto make = [](const std::string& folder) {
    std::string metrics = "{\"event\":\"run\",\"step\":0,\"time\":1.5,\"ranks\":1}\n";
    for (int step = 1; step < 20; ++step) {
      metrics += "{\"event\":\"train\",\"step\":" + std::to_string(step) +
                 ",\"loss\":4.5,\"lr\":0.001,\"tokens\":64,\"step_s\":0.5}\n";
    }
    write(folder + "/metrics.jsonl", metrics);
    write(folder + "/summary.json", "{\"final_loss\": 4.5, \"ranks\": [{\"rank\": 0}]}\n");
    write(folder + "/ranks.json", "{\"num_ranks\":1,\"tables\":[],\"ranks\":[{\"rank\":0}]}\n");
    write(folder + "/config.resolved.toml", to_toml(RunConfig{}));
  };
  for (const char* file : {"metrics.jsonl", "summary.json", "ranks.json"}) {
    maker.add(std::string("report_") + file, file, make, [](const std::string& folder) {
      return why(write_report(folder, folder + "/report.html"));
    });
  }
}

}  // namespace

std::vector<CraftedFormat> crafted_formats(const std::string& root) {
  Maker maker{root, {}};
  maker.formats.reserve(64);  // because add() returns references to elements
  add_configurations(maker);
  add_tokenizers(maker);
  add_texts(maker);
  add_models(maker);
  add_adapters(maker);
  add_checkpoints(maker);
  add_reports(maker);
  return std::move(maker.formats);
}

}  // namespace trireme
