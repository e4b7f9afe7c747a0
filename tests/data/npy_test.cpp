#include "propagator/data/npy.h"

#include <torch/utils.h>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::thrown;

// An array of three floats with this header.
std::string npy(const std::string& header, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  for (size_t n = 0; n < (version == 1 ? 2 : 4); ++n) {
    bytes += static_cast<char>(header.size() >> (8 * n) & 0xff);
  }
  return bytes + header + std::string(12, '\0');
}

TEST(DataNpy, HeadersMayBeWrittenInManyWays) {
  for (const std::string header :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   \n",
        "{'shape':(3L,),'fortran_order':True,'descr':'<f4'}",
        "{\"descr\": \"<f4\", \"shape\": (3), \"fortran_order\": False}"}) {
    for (const char version : {1, 2, 3}) {
      EXPECT_TRUE(torch::equal(from_npy(npy(header, version)), torch::zeros(3)))
          << header;
    }
  }
}

TEST(DataNpy, OtherHeadersAreDamage) {
  const std::string rest = ", 'fortran_order': False, 'descr': '<f4'}";
  for (const std::string& header :
       {std::string(), std::string("{"), std::string("{}"), rest,
        "{'shape': 3" + rest, "{'shape': (3" + rest, "{'shape': (a,)" + rest,
        "{'shape': (3.0,)" + rest, "{'shape': (-3,)" + rest,
        "{'shape': (3)" + rest + "more", "{'shape': (3), 'other': '1'" + rest,
        "{'shape': (99999999999999999999,)" + rest,
        "{'shape': (4611686018427387907,)" + rest,
        "{'shape': (0, 4611686018427387904, 4611686018427387904)" + rest,
        std::string("{'shape': (3,), 'descr': '<f4'}"),
        std::string("{'shape': (3,), 'descr': '<f4', 'fortran_order': None}"),
        std::string("{'shape': (3,), 'descr': '<f4")}) {
    EXPECT_THROW(from_npy(npy(header)), DataError) << header;
  }
}

TEST(DataNpy, ALongHeaderIsRefusedNotMatched) {
  const auto message = thrown<DataError>([] {
    from_npy(npy("{'descr': '<f4'," + std::string(60'000, ' ') +
                 "'fortran_order': False, 'shape': (3,), }"));
  });
  EXPECT_EQ(message, "its header is too long");
}

TEST(DataNpy, TypesOfOthersAreNamedInPlainText) {
  EXPECT_EQ(thrown<DataError>([] {
              from_npy(
                  npy("{'descr': '\x1b[2J', 'fortran_order': False, "
                      "'shape': (3,), }"));
            }),
            "its type '\ufffd[2J' is not supported");
}

// What NumPy stores of a list of arrays of different shapes.
TEST(DataNpy, RaggedArraysAreNotRun) {
  EXPECT_NE(thrown<DataError>([] {
              from_npy(
                  npy("{'descr': '|O', 'fortran_order': False, "
                      "'shape': (3,), }"));
            }).find("arrays of different shapes: a pickle"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::data
