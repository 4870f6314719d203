#include "data/image_set.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "data/encoded_images.h"
#include "data/image_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class ImageSetTest : public testing::Test {
 protected:
  ImageSetTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ImageSetTest() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  Result<std::unique_ptr<ImageSet>> open(const std::string& name = "",
                                         const std::string& split = "train") {
    const fs::path path = name.empty() ? folder_ : folder_ / name;
    return open_image_set(path.string(), split, {4, 4, 3});
  }
  std::string message(const std::string& name = "") {
    const auto set = open(name);
    return set.ok() ? "" : set.error().message.substr(folder_.string().size() + 1);
  }
  fs::path folder_ =
      fs::temp_directory_path() / ("trireme_image_set_test." + std::to_string(::getpid()));
};

std::vector<uint8_t> image_of(const ImageSet& set, int64_t index) {
  std::vector<uint8_t> pixels(size_t(set.extents().bytes()));
  set.read(index, pixels);
  return pixels;
}
std::string counted(int64_t count, int first = 0) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(char(first + i * 7));
  return bytes;
}

TEST_F(ImageSetTest, IdxFilesGiveTheirImagesAndLabels) {
  const std::string pixels = counted(3 * 2 * 5);
  write("train-images-idx3-ubyte", idx_header({3, 2, 5}) + pixels);
  write("train-labels-idx1-ubyte", idx_header({3}) + std::string{4, 0, 2});
  const auto set = open();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ((*set)->extents(), (ImageExtents{2, 5, 1}));
  EXPECT_EQ((*set)->num_classes(), 5);
  std::vector<uint8_t> image(10);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*set)->read(i, image), (std::vector<int32_t>{4, 0, 2}[size_t(i)]));
    EXPECT_EQ(std::string(image.begin(), image.end()), pixels.substr(size_t(i) * 10, 10));
  }
}

TEST_F(ImageSetTest, ASplitHasItsOwnFilesAndMayBePacked) {
  const auto write_packed = [&](const std::string& name, const std::string& bytes) {
    gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, bytes.data(), unsigned(bytes.size()));
    gzclose(file);
  };
  write("train-images-idx3-ubyte", idx_header({1, 2, 5}) + counted(10));
  write("train-labels-idx1-ubyte", idx_header({1}) + std::string{1});
  write_packed("t10k-images-idx3-ubyte.gz", idx_header({2, 2, 5}) + counted(20, 3));
  write_packed("t10k-labels-idx1-ubyte.gz", idx_header({2}) + std::string{1, 0});
  EXPECT_EQ((*open("", "train"))->size(), 1);
  const auto test = open("", "test");
  ASSERT_TRUE(test.ok()) << test.error().message;
  EXPECT_EQ((*test)->size(), 2);
  EXPECT_EQ(image_of(**test, 0)[0], 3);
  for (const char* name : {"train/a/1.png", "train/b/1.png", "test/b/1.png"}) {
    write(std::string("pictures/") + name, encoded_png({4, 4, 3}, std::vector<uint8_t>(48)));
  }
  EXPECT_EQ((*open("pictures", "train"))->size(), 2);
  EXPECT_EQ((*open("pictures", "test"))->class_name(0), "b");
}

// A file that is longer or shorter by any number of bytes is not the file of its header.
TEST_F(ImageSetTest, IdxFilesOfAnotherLengthAreNamed) {
  const std::string images = idx_header({3, 2, 5}) + counted(30);
  const std::string labels = idx_header({3}) + std::string{4, 0, 2};
  write("train-images-idx3-ubyte", images);
  for (size_t length = 0; length < labels.size() + 3; ++length) {
    if (length == labels.size()) continue;
    write("train-labels-idx1-ubyte", (labels + "zzz").substr(0, length));
    EXPECT_TRUE(message().starts_with("train-labels-idx1-ubyte has ")) << message();
  }
  write("train-labels-idx1-ubyte", labels);
  for (size_t length = 0; length < images.size(); ++length) {
    write("train-images-idx3-ubyte", images.substr(0, length));
    EXPECT_TRUE(message().starts_with("train-images-idx3-ubyte has ")) << message();
  }
  write("train-images-idx3-ubyte", idx_header({2, 3, 5}) + counted(30));
  EXPECT_NE(message().find("has 2 images"), std::string::npos);
  write("train-images-idx3-ubyte", "\x1f\x8b" + images);
  EXPECT_NE(message().find("starts with 0x1f8b0000"), std::string::npos) << message();
}

TEST_F(ImageSetTest, CifarPlanesBecomePixels) {
  for (int64_t label_bytes : {1, 2}) {
    fs::remove_all(folder_);
    const char* files[] = {"data_batch_1.bin", "data_batch_2.bin"};
    for (int i = 0; i < 2; ++i) {
      const std::string label =
          label_bytes == 1 ? std::string{char(3 + i)} : std::string{char(19), char(70 + i)};
      write(files[i], label + counted(3072, i) + label + counted(3072, 5 + i));
    }
    const auto set = open();
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_EQ((*set)->size(), 4);
    EXPECT_EQ((*set)->num_classes(), label_bytes == 1 ? 10 : 100);
    const std::string planes = counted(3072, 6);
    const auto image = image_of(**set, 3);
    for (size_t i = 0; i < image.size(); ++i) {
      ASSERT_EQ(image[i], uint8_t(planes[i % 3 * 1024 + i / 3]));
    }
  }
}

TEST_F(ImageSetTest, CifarFilesOfAWrongLengthOrClassAreNamed) {
  write("data_batch_1.bin", std::string(1, '\x0b') + counted(3072));
  EXPECT_EQ(message(), "data_batch_1.bin: image 0 has the class 11; CIFAR-10 has classes 0 to 9");
  write("data_batch_1.bin", std::string(1, '\x01') + counted(3071));
  EXPECT_TRUE(message().starts_with("data_batch_1.bin has 3072 bytes, which are no whole number"));
  write("data_batch_1.bin", std::string(1, '\x01') + counted(3072));
  write("data_batch_2.bin", std::string(2, '\x01') + counted(3072));
  EXPECT_TRUE(message().starts_with("data_batch_2.bin has 3074 bytes")) << message();
}

TEST_F(ImageSetTest, ATableOfDigitsIsReadOrItsLineNamed) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(i % 17) + (i % 2 == 0 ? "," : ".0,");
  write("digits.csv", line + "7\n" + line + "1e0\r\n");
  const auto set = open("digits.csv");
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ((*set)->size(), 2);
  std::vector<uint8_t> image(64);
  EXPECT_EQ((*set)->read(0, image), 7);
  EXPECT_EQ((*set)->read(1, image), 1);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(image[i], i % 17 * 255 / 16);
  for (const char* wrong : {"17,", ",", "x,", "-1,", "0.5,", "1e999,", "1 ,"}) {
    write("digits.csv", line + "7\n" + wrong + line.substr(2) + "7\n");
    EXPECT_TRUE(message("digits.csv").starts_with("digits.csv, line 2, column 1:")) << wrong;
  }
  write("digits.csv", line + "7,1\n");
  EXPECT_TRUE(message("digits.csv").starts_with("digits.csv, line 1, column 65:"));
  write("digits.csv", "");
  EXPECT_EQ(message("digits.csv"), "digits.csv has no line");
}

TEST_F(ImageSetTest, AFolderHasAClassPerFolderInTheOrderOfTheirNames) {
  const ImageExtents small{4, 4, 3};
  const auto pixels = [](int first) {
    const std::string bytes = counted(48, first);
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  };
  write("dog/b.PNG", encoded_png(small, pixels(1)));
  write("dog/a.png", encoded_png(small, pixels(2)));
  write("cat/z.png", encoded_png(small, pixels(3)));
  write("cat/readme.txt", "no image");
  fs::create_directories(folder_ / "empty");
  const auto set = open();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ((*set)->size(), 3);
  EXPECT_EQ((*set)->num_classes(), 2);
  EXPECT_EQ((*set)->class_name(1), "dog");
  EXPECT_EQ(image_of(**set, 0), pixels(3));
  EXPECT_EQ(image_of(**set, 1), pixels(2));
  EXPECT_EQ(image_of(**set, 2), pixels(1));
}

TEST_F(ImageSetTest, ADamagedImageOfAFolderIsNamedWhenItIsRead) {
  std::string png = encoded_png({4, 4, 3}, std::vector<uint8_t>(48, 9));
  png[45] = char(png[45] ^ 1);
  write("cat/broken.png", png);
  const auto set = open();
  ASSERT_TRUE(set.ok());
  try {
    image_of(**set, 0);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("cat/broken.png: damaged PNG: "), std::string::npos)
        << error.what();
  }
}

TEST_F(ImageSetTest, AFolderWithoutImagesSaysWhatItNeeds) {
  EXPECT_NE(open().error().message.find("has no images: it needs a folder for each class"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
