#include "propagator/core/base64.h"

#include "testing.h"

namespace propagator {
namespace {

TEST(CoreBase64, VectorsOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(CoreBase64, BytesAreUnsigned) {
  EXPECT_EQ(base64(std::string("\xff\xfe\xfd\x00", 4)), "//79AA==");
  EXPECT_EQ(base64("\xfb\xf0"), "+/A=");
}

}  // namespace
}  // namespace propagator
