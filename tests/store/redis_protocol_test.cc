// The parts of the Redis client that need no server: addresses, slots, replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe_store/redis/redis_options.h"
#include "recipe_store/redis/redis_reply.h"
#include "recipe_store/redis/redis_topology.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(RedisAddresses, AreReadInAllForms) {
  const RedisAddresses one = ParseRedisAddresses("cache:6379").value();
  EXPECT_EQ(one.endpoints, (std::vector<RedisEndpoint>{{"cache", 6379}}));
  EXPECT_EQ(one.master_name, "");
  const RedisAddresses two = ParseRedisAddresses("10.0.0.1:1,[fd00::2]:65535").value();
  EXPECT_EQ(two.endpoints, (std::vector<RedisEndpoint>{{"10.0.0.1", 1}, {"fd00::2", 65535}}));
  EXPECT_EQ(two.endpoints[1].text(), "[fd00::2]:65535");
  const RedisAddresses sentinels = ParseRedisAddresses("sentinel:main@a:26379,b:26380").value();
  EXPECT_EQ(sentinels.master_name, "main");
  EXPECT_EQ(sentinels.endpoints, (std::vector<RedisEndpoint>{{"a", 26379}, {"b", 26380}}));
}

TEST(RedisAddresses, AreRefusedWithTheWrongPart) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "have an empty part"},
      {"a:1,,b:2", "have an empty part"},
      {"cache", "\"cache\" has no port"},
      {"a:1,cache:0", "\"cache:0\": \"0\" is no port"},
      {"cache:65536", "\"65536\" is no port"},
      {"cache:12x", "\"12x\" is no port"},
      {":6379", "\":6379\" has no usable host"},
      {"::1:6379", "goes into brackets"},
      {"redis://cache:6379", "goes into brackets"},
      {"us er:1", "has no usable host"},
      {"user@cache:1", "has no usable host"},
      {"sentinel:@a:1", "name no master"},
      {"sentinel:main", "name no master"},
  };
  for (const auto& [text, message] : rows) {
    const absl::Status status = ParseRedisAddresses(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(RedisOptions, AreCheckedAndHideThePassword) {
  RedisOptions good;
  good.addresses = "a:1";
  EXPECT_TRUE(CheckRedisOptions(good).ok());
  const auto refused = [&](auto change, const char* message) {
    RedisOptions bad = good;
    bad.password = "geheim";
    change(bad);
    const absl::Status status = CheckRedisOptions(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("geheim")));
  };
  refused([](RedisOptions& o) { o.addresses = "a"; }, "has no port");
  refused([](RedisOptions& o) { o.prefix = ""; }, "must have 1 to 64");
  refused([](RedisOptions& o) { o.prefix = "a b"; }, "must have 1 to 64");
  refused([](RedisOptions& o) { o.password = "", o.user = "u"; }, "without a password");
  refused([](RedisOptions& o) { o.command_timeout = {}; }, "above 0");
  refused([](RedisOptions& o) { o.max_retry_after = milliseconds(1); }, "max_retry_after");
  refused([](RedisOptions& o) { o.entry_ttl = milliseconds(-1); }, "entry_ttl");
}

// These are values of redis-cli CLUSTER KEYSLOT.
TEST(RedisSlot, IsTheClusters) {
  EXPECT_EQ(RedisSlot("123456789"), 0x31c3);
  EXPECT_EQ(RedisSlot("foo"), 12182);
  EXPECT_EQ(RedisSlot("{foo}:bar"), 12182);
  EXPECT_EQ(RedisSlot("x{foo}{bar}"), 12182);
  EXPECT_EQ(RedisSlot("foo{}{bar}"), RedisSlot("foo{}{bar}"));
  EXPECT_NE(RedisSlot("foo{}{bar}"), RedisSlot("bar"));
  EXPECT_EQ(RedisSlot("{{bar}}"), RedisSlot("{bar"));
  EXPECT_EQ(RedisSlot(""), 0);
}

absl::StatusOr<std::optional<RedisReply>> Parse(const std::string& text,
                                                ReplyLimit limit = {.bytes = 100, .elements = 10}) {
  RedisReader reader;
  reader.Feed(text);
  return reader.Next(limit);
}

TEST(RedisReader, ReadsEveryKindOfReply) {
  EXPECT_EQ(Parse("+OK\r\n").value()->text(), "OK");
  EXPECT_EQ(Parse(":-7\r\n").value()->integer, -7);
  EXPECT_EQ(Parse("$-1\r\n").value()->kind, RedisReply::Kind::kNil);
  EXPECT_EQ(Parse("$0\r\n\r\n").value()->kind, RedisReply::Kind::kText);
  const RedisReply array = *Parse("*3\r\n$2\r\nab\r\n*1\r\n:5\r\n*-1\r\n").value();
  EXPECT_EQ(array.elements.at(0).text(), "ab");
  EXPECT_EQ(array.elements.at(1).elements.at(0).integer, 5);
  EXPECT_EQ(array.elements.at(2).kind, RedisReply::Kind::kNil);
  EXPECT_EQ(Parse("-MOVED 1 a:2\r\n").value()->error_word(), "MOVED");
}

TEST(RedisReader, WaitsForTheRest) {
  const std::string text = "*2\r\n$3\r\nabc\r\n:1\r\n";
  RedisReader reader;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    reader.Feed({&text[i], 1});
    EXPECT_FALSE(reader.Next({.bytes = 3, .elements = 2}).value().has_value()) << i;
  }
  reader.Feed({&text.back(), 1});
  EXPECT_EQ(reader.Next({.bytes = 3, .elements = 2}).value()->elements.size(), 2u);
  EXPECT_EQ(reader.left_over(), 0u);
}

TEST(RedisReader, RefusesWhatIsLargerThanItsLimit) {
  const std::string big(5000, 'x');
  for (const std::string& text :
       {std::string("$101\r\n") + std::string(101, 'x') + "\r\n", "$999999999\r\n" + big,
        std::string("*11\r\n"), std::string("*2147483647\r\n"), std::string("*2\r\n*9\r\n"),
        "+" + big + "\r\n", "-" + big + "\r\n", "+" + big,
        "*2\r\n$60\r\n" + std::string(60, 'x') + "\r\n$60\r\n" + std::string(60, 'x') + "\r\n"}) {
    EXPECT_TRUE(absl::IsResourceExhausted(Parse(text).status())) << text.substr(0, 20);
  }
}

TEST(RedisReader, RefusesWhatIsNoReply) {
  for (const char* text : {"HTTP/1.1 400 Bad Request\r\n", "?\r\n", ":12a\r\n", "$-2\r\n",
                           "$99999999999999999999\r\n", "*-2\r\n", "*99999999999\r\n",
                           "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    const absl::Status status = Parse(text).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsResourceExhausted(status)) << status;
  }
}

TEST(RedisReply, ErrorsSayWhatToDo) {
  const auto told = [](const std::string& text) { return ErrorOf(**Parse(text + "\r\n")); };
  EXPECT_TRUE(absl::IsDataLoss(told("-WRONGTYPE Operation against a key")));
  const absl::Status full = told("-OOM command not allowed");
  EXPECT_TRUE(absl::IsUnavailable(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("raise its maxmemory"));
  EXPECT_THAT(std::string(told("-READONLY You can't").message()), HasSubstr("name its master"));
  EXPECT_THAT(std::string(told("-WRONGPASS x").message()), HasSubstr("password are wrong"));
  EXPECT_THAT(std::string(told("-A\x01\x1b[31m").message()), HasSubstr("A??[31m"));
}

TEST(RedisTopology, ReadsClusterSlots) {
  const RedisReply reply = *Parse(
                                "*2\r\n"
                                "*3\r\n:0\r\n:99\r\n*2\r\n$7\r\n1.2.3.4\r\n:7000\r\n"
                                "*3\r\n:200\r\n:16383\r\n*2\r\n$0\r\n\r\n:7001\r\n",
                                {.bytes = 100, .elements = 100})
                                .value();
  const RedisTopology topology = ParseClusterSlots(reply, {"asked", 1}).value();
  EXPECT_EQ(topology.nodes, (std::vector<RedisEndpoint>{{"1.2.3.4", 7000}, {"asked", 7001}}));
  EXPECT_EQ(topology.owners.at(99), 0);
  EXPECT_EQ(topology.owners.at(100), -1);
  EXPECT_EQ(topology.owners.at(16383), 1);
  EXPECT_EQ(topology.NodeOf("foo").value().port, 7001);
}

TEST(RedisTopology, RefusesOtherForms) {
  for (const char* row :
       {"*2\r\n:0\r\n:1\r\n", ":7\r\n", "*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n", "*3\r\n:-1\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:0\r\n:4\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*3\r\n:0\r\n:4\r\n*2\r\n$1\r\na\r\n:70000\r\n",
        "*3\r\n$1\r\n0\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n"}) {
    const RedisReply reply = **Parse(std::string("*1\r\n") + row);
    EXPECT_TRUE(absl::IsDataLoss(ParseClusterSlots(reply, {"asked", 1}).status())) << row;
  }
  EXPECT_TRUE(absl::IsUnavailable(ParseClusterSlots(**Parse("*0\r\n"), {"asked", 1}).status()));
}

TEST(RedisTopology, ReadsRedirections) {
  const auto redirect = [](const std::string& text) {
    return ParseRedirect(**Parse("-" + text + "\r\n"), {"asked", 1});
  };
  EXPECT_EQ(redirect("MOVED 3999 127.0.0.1:6381")->to, (RedisEndpoint{"127.0.0.1", 6381}));
  EXPECT_FALSE(redirect("MOVED 3999 127.0.0.1:6381")->ask);
  EXPECT_TRUE(redirect("ASK 3999 ::1:6381")->ask);
  EXPECT_EQ(redirect("ASK 3999 ::1:6381")->to, (RedisEndpoint{"::1", 6381}));
  EXPECT_EQ(redirect("MOVED 1 :6381")->to, (RedisEndpoint{"asked", 6381}));
  for (const char* text : {"ERR x", "MOVED", "MOVED 1", "MOVED 1 a", "MOVED 1 a:b", "ASK 1 a:0"}) {
    EXPECT_FALSE(redirect(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace hpu::store
