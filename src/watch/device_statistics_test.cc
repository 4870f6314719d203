#include "watch/device_statistics.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Devices, AreReadFromALibraryThatIsLoadedAtRunTime) {
  for (int turn = 0; turn < 2; ++turn) {  // the library can be loaded again
    const Devices devices(TRIREME_FAKE_NVML);
    ASSERT_TRUE(devices.is_loaded());
    const std::vector<DeviceStatistics> read = devices.read();
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(read[0].name, "Fake 100");
    EXPECT_EQ(read[0].temperature_c, 71.0);
    EXPECT_EQ(read[0].power_w, 312.5);
    EXPECT_EQ(read[0].ecc_corrected, 12);
    EXPECT_EQ(read[0].ecc_uncorrected, 3);
    EXPECT_EQ(read[0].throttle, (std::vector<std::string_view>{"hw_thermal"}));
    EXPECT_EQ(uncorrected_errors(read), 3);

    EXPECT_EQ(read[1].index, 1);
    EXPECT_EQ(read[1].temperature_c, 40.0);
    EXPECT_TRUE(read[1].name.empty());
    EXPECT_FALSE(read[1].power_w.has_value());
    EXPECT_FALSE(read[1].ecc_uncorrected.has_value());
    EXPECT_TRUE(read[1].throttle.empty());
  }
}

TEST(Devices, AreNoneWithoutTheLibrary) {
  for (const char* library : {"libtrireme-no-such-library.so", "libm.so.6"}) {
    const Devices devices(library);
    EXPECT_FALSE(devices.is_loaded()) << library;
    EXPECT_TRUE(devices.read().empty());
  }
}

}  // namespace
}  // namespace trireme
