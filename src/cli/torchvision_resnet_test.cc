// A file with torchvision's names, written and evaluated here without any of the converter's code.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_text.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/command_fixture.h"

namespace trireme {
namespace {

constexpr int64_t kClasses = 10, kSize = 32;

struct TorchTensor {
  std::vector<int64_t> extents;
  std::vector<float> values;
};
using StateDict = std::map<std::string, TorchTensor>;

// Values that are spread evenly around a mean.
class Numbers {
 public:
  TorchTensor make(std::vector<int64_t> extents, double mean, double spread) {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    TorchTensor tensor{std::move(extents), {}};
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      const double unit = double(state_ >> 40) / double(1 << 24) * 2.0 - 1.0;
      tensor.values.push_back(float(mean + spread * unit));
    }
    return tensor;
  }

 private:
  uint64_t state_ = 1;
};

// The blocks of a ResNet-50 with so many channels of the first convolution, 64 as published.
struct NetSize {
  int64_t channels = 64;
  int64_t blocks = 16;
};
constexpr NetSize kFirstBlocks{64, 2};
// Every block, with an eighth of the channels.
constexpr NetSize kThin{8, 16};

// A block as torchvision numbers it: its group has `wide` channels inside and four times as many
// outside.
struct TorchBlock {
  std::string name;  // "layer3.5."
  int64_t wide = 0;
  int64_t in = 0;  // channels of its input
  int64_t stride = 1;
  bool has_shortcut = false;
};
std::vector<TorchBlock> blocks_of(const NetSize& size) {
  constexpr int64_t kBlocksOfGroup[] = {3, 4, 6, 3};
  std::vector<TorchBlock> blocks;
  int64_t in = size.channels;
  for (int64_t group = 0; group < 4; ++group) {
    for (int64_t i = 0; i < kBlocksOfGroup[group]; ++i) {
      if (int64_t(blocks.size()) == size.blocks) return blocks;
      const int64_t wide = size.channels << group;
      blocks.push_back({"layer" + std::to_string(group + 1) + "." + std::to_string(i) + ".", wide,
                        in, group > 0 && i == 0 ? 2 : 1, i == 0});
      in = 4 * wide;
    }
  }
  return blocks;
}

StateDict resnet50_of(const NetSize& size) {
  Numbers numbers;
  StateDict net;
  const auto conv = [&](const std::string& name, int64_t filters, int64_t channels, int64_t side) {
    const double fan_in = double(channels * side * side);
    net[name + ".weight"] = numbers.make({filters, channels, side, side}, 0, std::sqrt(6 / fan_in));
  };
  const auto norm = [&](const std::string& name, int64_t channels, double gain = 1.0) {
    net[name + ".weight"] = numbers.make({channels}, gain, 0.5 * gain);
    net[name + ".bias"] = numbers.make({channels}, 0.0, 0.2 * gain);
    net[name + ".running_mean"] = numbers.make({channels}, 0.0, 0.3);
    net[name + ".running_var"] = numbers.make({channels}, 1.0, 0.5);
  };
  conv("conv1", size.channels, 3, 7);
  norm("bn1", size.channels);
  const std::vector<TorchBlock> blocks = blocks_of(size);
  for (const TorchBlock& block : blocks) {
    conv(block.name + "conv1", block.wide, block.in, 1);
    norm(block.name + "bn1", block.wide);
    conv(block.name + "conv2", block.wide, block.wide, 3);
    norm(block.name + "bn2", block.wide);
    conv(block.name + "conv3", 4 * block.wide, block.wide, 1);
    // What a block adds is small beside its input, so that 16 of them do not make it explode.
    norm(block.name + "bn3", 4 * block.wide, size.blocks > 2 ? 0.25 : 1.0);
    if (!block.has_shortcut) continue;
    conv(block.name + "downsample.0", 4 * block.wide, block.in, 1);
    norm(block.name + "downsample.1", 4 * block.wide);
  }
  const int64_t features = 4 * blocks.back().wide;
  net["fc.weight"] = numbers.make({kClasses, features}, 0.0, 0.1);
  net["fc.bias"] = numbers.make({kClasses}, 0.0, 0.5);
  return net;
}

void write_file(const StateDict& net, const std::string& path) {
  std::vector<SafetensorsSpec> specs;
  for (const auto& [name, tensor] : net) {
    specs.push_back({name, DType::F32, Shape(std::span<const int64_t>(tensor.extents))});
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, specs, {});
  ASSERT_TRUE(writer.ok());
  for (const auto& [name, tensor] : net) {
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

// [channel][row][column]
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<double> values;
  double at(int64_t c, int64_t y, int64_t x) const {
    const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
    return is_inside ? values[size_t((c * height + y) * width + x)] : 0.0;
  }
};

// The net as its paper and torchvision describe it, in double.
class Reference {
 public:
  Reference(const StateDict& net, const NetSize& size) : net_(net), size_(size) {}

  std::vector<double> log_probabilities(const Image& image) const {
    Image x = max_pool(relu(norm("bn1", conv("conv1", image, 2, 3))));
    for (const TorchBlock& block : blocks_of(size_)) {
      Image h = relu(norm(block.name + "bn1", conv(block.name + "conv1", x, 1, 0)));
      h = relu(norm(block.name + "bn2", conv(block.name + "conv2", h, block.stride, 1)));
      h = norm(block.name + "bn3", conv(block.name + "conv3", h, 1, 0));
      const Image shortcut = block.has_shortcut
                                 ? norm(block.name + "downsample.1",
                                        conv(block.name + "downsample.0", x, block.stride, 0))
                                 : x;
      for (size_t i = 0; i < h.values.size(); ++i) h.values[i] += shortcut.values[i];
      x = relu(std::move(h));
    }
    return log_softmax(classify(x));
  }

 private:
  const std::vector<float>& values(const std::string& name) const { return net_.at(name).values; }

  Image conv(const std::string& name, const Image& x, int64_t stride, int64_t padding) const {
    const TorchTensor& w = net_.at(name + ".weight");
    const int64_t filters = w.extents[0], channels = w.extents[1], size = w.extents[2];
    Image y{filters,
            (x.height + 2 * padding - size) / stride + 1,
            (x.width + 2 * padding - size) / stride + 1,
            {}};
    for (int64_t f = 0; f < filters; ++f) {
      for (int64_t row = 0; row < y.height; ++row) {
        for (int64_t column = 0; column < y.width; ++column) {
          double sum = 0.0;
          for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0; i < size * size; ++i) {
              sum +=
                  double(w.values[size_t((f * channels + c) * size * size + i)]) *
                  x.at(c, row * stride - padding + i / size, column * stride - padding + i % size);
            }
          }
          y.values.push_back(sum);
        }
      }
    }
    return y;
  }
  Image norm(const std::string& name, Image x) const {
    const size_t pixels = size_t(x.height * x.width);
    for (size_t i = 0; i < x.values.size(); ++i) {
      const size_t c = i / pixels;
      const double variance = double(values(name + ".running_var")[c]) + 1e-5;
      x.values[i] = (x.values[i] - double(values(name + ".running_mean")[c])) /
                        std::sqrt(variance) * double(values(name + ".weight")[c]) +
                    double(values(name + ".bias")[c]);
    }
    return x;
  }
  static Image relu(Image x) {
    for (double& value : x.values) value = std::max(value, 0.0);
    return x;
  }
  // Windows of 3 x 3 pixels, stride 2, padding 1. Behind a ReLU, pixels outside count as 0.
  static Image max_pool(const Image& x) {
    Image y{x.channels, (x.height + 1) / 2, (x.width + 1) / 2, {}};
    for (int64_t i = 0; i < y.channels * y.height * y.width; ++i) {
      const int64_t c = i / (y.height * y.width), row = i / y.width % y.height,
                    column = i % y.width;
      double most = 0.0;
      for (int64_t k = 0; k < 9; ++k) {
        most = std::max(most, x.at(c, 2 * row - 1 + k / 3, 2 * column - 1 + k % 3));
      }
      y.values.push_back(most);
    }
    return y;
  }
  std::vector<double> classify(const Image& x) const {
    std::vector<double> logits;
    const size_t pixels = size_t(x.height * x.width);
    for (size_t k = 0; k < size_t(kClasses); ++k) {
      double sum = double(values("fc.bias")[k]);
      for (size_t c = 0; c < size_t(x.channels); ++c) {
        const auto begin = x.values.begin() + long(c * pixels);
        const double mean = std::accumulate(begin, begin + long(pixels), 0.0) / double(pixels);
        sum += double(values("fc.weight")[k * size_t(x.channels) + c]) * mean;
      }
      logits.push_back(sum);
    }
    return logits;
  }
  static std::vector<double> log_softmax(std::vector<double> logits) {
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit);
    for (double& logit : logits) logit -= std::log(sum);
    return logits;
  }

  const StateDict& net_;
  NetSize size_;
};

// The bytes of an image as a CIFAR file has them: all of red, then of green, then of blue.
std::string bytes_of_image() {
  std::string bytes;
  for (int64_t i = 0; i < 3 * kSize * kSize; ++i) bytes.push_back(char((i * i / 7 + i * 13) % 251));
  return bytes;
}

// Scaled as torchvision scales it.
Image pixels_of(const std::string& bytes) {
  constexpr double kMean[] = {0.485, 0.456, 0.406}, kDeviation[] = {0.229, 0.224, 0.225};
  Image image{3, kSize, kSize, {}};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t c = i / size_t(kSize * kSize);
    image.values.push_back((double(uint8_t(bytes[i])) / 255.0 - kMean[c]) / kDeviation[c]);
  }
  return image;
}

class TorchvisionResNet : public CommandTest {};

TEST_F(TorchvisionResNet, AnImportedNetHasTheProbabilitiesOfAPlainEvaluation) {
  for (const NetSize& size : {kFirstBlocks, kThin}) {
    SCOPED_TRACE(size.blocks);
    const StateDict net = resnet50_of(size);
    write_file(net, "resnet.safetensors");
    std::filesystem::remove_all("imported");
    const std::string said =
        succeed({"checkpoint", "import", "resnet.safetensors", "--out", "imported"});
    EXPECT_NE(said.find(size.channels == 64 ? "resnet50 of " : "wide_resnet of "),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("equal bit for bit"), std::string::npos) << said;
    const std::string image = bytes_of_image();
    const std::vector<double> wanted = Reference(net, size).log_probabilities(pixels_of(image));
    const auto [least, most] = std::minmax_element(wanted.begin(), wanted.end());
    ASSERT_GT(*most - *least, 0.5);  // the classes differ
    for (int64_t label = 0; label < kClasses; ++label) {
      const std::string folder = "label" + std::to_string(label);
      std::filesystem::create_directory(folder);
      std::ofstream(folder + "/test_batch.bin", std::ios::binary) << char(label) << image;
      const nlohmann::json answer = parse_json(
          succeed({"eval", "imported", folder, "--json", "--set", "model.image_size=32"}));
      EXPECT_NEAR(answer["loss"].get<double>(), -wanted[size_t(label)], 1e-4) << label;
    }
  }
}

TEST_F(TorchvisionResNet, TheRoundTripKeepsEveryBitUnderTheSameNames) {
  for (const NetSize& size : {kFirstBlocks, kThin}) {
    const StateDict net = resnet50_of(size);
    write_file(net, "resnet.safetensors");
    std::filesystem::remove_all("imported");
    succeed({"checkpoint", "import", "resnet.safetensors", "--out", "imported", "--trainable"});
    succeed({"checkpoint", "export", "imported", "--format", "torchvision", "--out",
             "out.safetensors"});
    const SafetensorsFile file = SafetensorsFile::open("out.safetensors").value();
    EXPECT_EQ(file.header().tensors.size(), net.size());
    for (const auto& [name, tensor] : net) {
      const SafetensorsEntry* entry = file.header().find(name);
      ASSERT_NE(entry, nullptr) << name;
      EXPECT_EQ(entry->extents, tensor.extents) << name;
      std::vector<float> values(tensor.values.size());
      ASSERT_TRUE(file.read(*entry, 0, std::as_writable_bytes(std::span(values))).ok());
      EXPECT_EQ(values, tensor.values) << name;
    }
    std::filesystem::remove("out.safetensors");
  }
}

TEST_F(TorchvisionResNet, OtherFilesAndFormatsAreRefusedWithAReason) {
  const auto says = [](const std::vector<std::string>& args, const std::string& words) {
    const CommandAnswer answer = answer_of(args);
    EXPECT_NE(answer.exit_code, 0);
    EXPECT_NE(answer.err.find(words), std::string::npos) << answer.err;
  };
  const StateDict net = resnet50_of(kFirstBlocks);
  StateDict deeper = net, thinner = net, other = net;
  deeper["layer2.0.conv1.weight"] = net.at("layer1.1.conv1.weight");
  thinner["layer1.1.conv2.weight"].extents = {64, 32, 3, 6};
  other["layer1.1.attention.weight"] = net.at("fc.bias");
  const std::vector<std::string> import = {"checkpoint", "import", "x.safetensors", "--out", "no"};
  write_file(deeper, "x.safetensors");
  says(import, "layer2 has 1 blocks");
  write_file(thinner, "x.safetensors");
  says(import, "layer1.1.conv2.weight is [64, 32, 3, 6]");
  write_file(other, "x.safetensors");
  says(import, "layer1.1.attention.weight is no tensor of ResNet-50");
  write_file(net, "x.safetensors");
  succeed({"checkpoint", "import", "x.safetensors", "--out", "imported"});
  says({"checkpoint", "export", "imported", "--out", "hf"}, "--format torchvision");
  says({"checkpoint", "logits", "imported", "--tokens", "1"}, "trireme eval imported IMAGES");
  says({"generate", "imported", "-p", "a"}, "which generates no text");
  says({"generate", "x.safetensors", "-p", "a"}, "which generates no text");
}

}  // namespace
}  // namespace trireme
