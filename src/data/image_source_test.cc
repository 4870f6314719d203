#include "data/image_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "data/synthetic_images.h"

namespace trireme {
namespace {

constexpr ImageExtents kExtents{6, 5, 3};

std::shared_ptr<const ImageSet> some_images(int64_t size, std::string_view split = "train") {
  return std::make_shared<SyntheticImages>(3, kExtents, 7, size, split);
}

std::vector<uint8_t> moved(const ImageMove& move, const std::vector<uint8_t>& pixels) {
  std::vector<uint8_t> out(pixels.size());
  move_image(kExtents, move, pixels, out);
  return out;
}

TEST(ImageSource, AnEpochReadsEveryImageOnceAndTheNextInAnotherOrder) {
  for (int64_t size : {1, 2, 7, 100}) {
    const ImageSource source(some_images(size), 11, {});
    std::vector<std::vector<int64_t>> epochs(3);
    for (int64_t sample = 0; sample < 3 * size; ++sample) {
      epochs[size_t(sample / size)].push_back(source.image_of(uint64_t(sample)));
    }
    for (const auto& epoch : epochs) {
      EXPECT_EQ(int64_t(std::set(epoch.begin(), epoch.end()).size()), size);
      EXPECT_EQ(*std::max_element(epoch.begin(), epoch.end()), size - 1);
    }
    EXPECT_TRUE(size < 100 || epochs[0] != epochs[1]);
    EXPECT_EQ(source.epochs_of(uint64_t(3 * size)), 3.0);
  }
}

// So every rank, and every resumed run, has the same images.
TEST(ImageSource, ASampleDependsOnItsNumberAlone) {
  const ImageAugmentation augmentation{.flip = true, .crop_margin = 2};
  const ImageSource source(some_images(20), 11, augmentation),
      again(some_images(20), 11, augmentation);
  std::vector<uint8_t> scratch(size_t(source.scratch_bytes()));
  std::vector<float> pixels(size_t(kExtents.bytes())), others(pixels.size());
  std::vector<std::vector<float>> forward;
  for (uint64_t sample = 0; sample < 40; ++sample) {
    source.read_sample(sample, scratch, pixels);
    forward.push_back(pixels);
  }
  for (uint64_t sample = 40; sample-- > 0;) {
    const int32_t label = again.read_sample(sample, scratch, others);
    EXPECT_EQ(others, forward[sample]);
    EXPECT_TRUE(label >= 0 && label < 7);
  }
}

TEST(ImageAugmentation, MovesAreUniformAndDependOnTheSample) {
  const ImageAugmentation augmentation{.flip = true, .crop_margin = 1};
  std::vector<int> counts(18);
  constexpr int kSamples = 9000;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const ImageMove move = image_move(augmentation, {5}, sample);
    ++counts[size_t((move.down + 1) * 6 + (move.right + 1) * 2 + move.is_flipped)];
  }
  for (int count : counts) EXPECT_NEAR(count, kSamples / 18, 5 * std::sqrt(kSamples / 18.0));
}

TEST(ImageAugmentation, TwoFlipsAndAMoveBackGiveTheImageBack) {
  std::vector<uint8_t> pixels(size_t(kExtents.bytes()));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(1 + i);
  const ImageMove flip{.is_flipped = true};
  EXPECT_NE(moved(flip, pixels), pixels);
  EXPECT_EQ(moved(flip, moved(flip, pixels)), pixels);
  const auto there = moved({.down = 2, .right = -1}, pixels);
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t col = 0; col < 5; ++col) {
      for (int64_t c = 0; c < 3; ++c) {
        const bool inside = row + 2 < 6 && col >= 1;
        const size_t at = size_t((row * 5 + col) * 3 + c);
        EXPECT_EQ(there[at], inside ? pixels[at + 2 * 15 - 3] : 0);
      }
    }
  }
}

TEST(SyntheticImages, SplitsShareTheirPatternsAndClassesAreToldApartByThem) {
  const auto train = some_images(400), val = some_images(200, "val");
  // The mean image of each class of one split tells the classes of the other.
  std::vector<std::vector<double>> mean(7, std::vector<double>(size_t(kExtents.bytes())));
  std::vector<uint8_t> pixels(size_t(kExtents.bytes()));
  std::vector<int> count(7);
  for (int64_t i = 0; i < train->size(); ++i) {
    const auto label = size_t(train->read(i, pixels));
    ++count[label];
    for (size_t p = 0; p < pixels.size(); ++p) mean[label][p] += pixels[p];
  }
  int right = 0;
  for (int64_t i = 0; i < val->size(); ++i) {
    const auto label = size_t(val->read(i, pixels));
    std::vector<double> distance(7);
    for (size_t k = 0; k < 7; ++k) {
      for (size_t p = 0; p < pixels.size(); ++p) {
        distance[k] += std::pow(pixels[p] - mean[k][p] / count[k], 2);
      }
    }
    right +=
        std::min_element(distance.begin(), distance.end()) - distance.begin() == int64_t(label);
  }
  EXPECT_GT(right, 160);
}

}  // namespace
}  // namespace trireme
