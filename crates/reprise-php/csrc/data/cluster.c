/*
 * See cluster.h.
 *
 * A value from the store is put into this node's segment only if nothing was removed here since it was asked for: the
 * counter of its key, and that of news, are read before. What this node changes is told first, and takes effect here
 * afterwards, so that nobody can get the old value back in between.
 */
#define _GNU_SOURCE
#include <php.h>
#include <zend_smart_str.h>

#include <string.h>

#include "../engine/exceptions.h"
#include "../engine/request_state.h"
#include "arguments.h"
#include "cluster.h"
#include "talk.h"
#include "clock.h"
#include "../core/data_state.h"

/* Milliseconds for a reply beyond those that the question itself may take. The process answers sooner: its own waits
 * are shorter than this, unless data_cache_store_timeout is long. */
#define PATIENCE 3000
/* A visitor waits so long until other nodes' changes are written down. */
#define TELL_MS 50
enum { TELL_TAGS = 1, TELL_KEY = 2, TELL_ALL = 3, TELL_PURGE = 4 };
enum { PUT_CHANGED = 0, PUT_NEW = 1, PUT_COMPUTED = 2 };

static zend_string *names_of(HashTable *tags)
{
	smart_str text = {0};
	zval *name;

	if (tags) {
		ZEND_HASH_FOREACH_VAL(tags, name)
		{
			ZVAL_DEREF(name);
			uint16_t size = (uint16_t)Z_STRLEN_P(name);
			smart_str_appendl(&text, (const char *)&size, sizeof size);
			smart_str_append(&text, Z_STR_P(name));
		}
		ZEND_HASH_FOREACH_END();
	}
	smart_str_0(&text);
	return text.s;
}

/* The tags in a reply, as they stand here. False: they are none. */
static bool read_names(struct data_tags *tags, const zend_string *names)
{
	const char *at = names ? ZSTR_VAL(names) : NULL, *end = names ? at + ZSTR_LEN(names) : NULL;
	uint16_t size;

	tags->count = 0;
	while (at < end) {
		if ((size_t)(end - at) < sizeof size || tags->count == data_cache_MOST_VALUE_TAGS) {
			return false;
		}
		memcpy(&size, at, sizeof size);
		at += sizeof size;
		if (size == 0 || (size_t)(end - at) < size
		    || !data_cache_tag(&reprise_data->process, (const uint8_t *)at, size, &tags->tags[tags->count])) {
			return false;
		}
		tags->count++;
		at += size;
	}
	return true;
}

/* What this node was like before it asked. */
struct before {
	uint32_t touches;
	uint64_t flushes, news;
};

static struct before look(const zend_string *key)
{
	struct data_cache_process_state *process = &reprise_data->process;

	return (struct before){
	    .news = data_cache_news(process),
	    .touches = data_cache_touches(process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key)),
	    .flushes = data_cache_flushes(process),
	};
}

/* Keeps a value of the store here, with what is left of its time. */
static void keep(zend_string *key, const struct talk_reply *reply, const struct before *before, zval *value)
{
	struct data_tags tags;
	uint64_t soft = reply->head.first, hard = reply->head.second;

	if (!read_names(&tags, reply->tags) || data_cache_news(&reprise_data->process) != before->news) {
		return;
	}
	struct data_order order = {
	    .key = key,
	    .tags = tags.tags,
	    .tag_count = tags.count,
	    .flush = before->flushes,
	    .ttl = soft == UINT64_MAX ? 0
	           : soft > 0         ? soft
	                              : 1,
	    .stale = hard == UINT64_MAX || hard <= soft ? 0 : hard - soft,
	    .cost = reply->head.cost,
	    .condition = 2,
	    .number = before->touches,
	};
	(void)data_store_value(&order, value);
}

static enum cluster_answer take(zend_string *key, struct talk_reply *reply, const struct before *before, zval *result)
{
	zend_string *bytes = reply->value ? reply->value : ZSTR_EMPTY_ALLOC();
	enum cluster_answer answer = CLUSTER_NONE;

	/* What cannot be read here is as none, and is computed anew. */
	if (data_decode(result, (enum data_kind)reply->head.kind, bytes)) {
		answer = CLUSTER_VALUE;
		keep(key, reply, before, result);
	} else {
		(void)engine_report_exception("a value of the store cannot be read, and is computed anew");
	}
	data_talk_forget(reply);
	return answer;
}

static enum cluster_answer answer_of(const struct talk_reply *reply)
{
	switch ((enum data_cache_Word)reply->head.word) {
	case Mine: return CLUSTER_MINE;
	case Held: return CLUSTER_HELD;
	case Done: return CLUSTER_DONE;
	case None: return CLUSTER_NONE;
	default: return CLUSTER_AWAY;
	}
}

/* A question with a conversation of its own. */
static enum cluster_answer ask(struct data_cache_Head head, const struct talk_parts *parts, uint64_t wait,
                               struct talk_reply *reply)
{
	int talk = data_talk_open();

	if (talk < 0 || !data_talk_ask(talk, head, parts, wait + PATIENCE, reply)) {
		return CLUSTER_AWAY;
	}
	data_talk_close(talk);
	return reply->head.word == Value ? CLUSTER_VALUE : answer_of(reply);
}

enum cluster_answer data_cluster_fetch(zend_string *key, zval *result)
{
	struct talk_reply reply;

	if (!data_talk_is_possible()) {
		return CLUSTER_AWAY;
	}
	struct before before = look(key);
	enum cluster_answer answer =
	    ask((struct data_cache_Head){.word = Get}, &(struct talk_parts){.key = key}, 0, &reply);
	if (answer != CLUSTER_VALUE) {
		return answer;
	}
	if (reply.head.first == 0) {
		data_talk_forget(&reply);
		return CLUSTER_NONE;
	}
	return take(key, &reply, &before, result);
}

/* ---- computing -----------------------------------------------------------------------------------------------------
 */

enum cluster_answer data_cluster_turn(const struct data_order *order, uint64_t wait, uint64_t age, int *talk,
                                      zval *result)
{
	struct talk_reply reply;
	struct data_cache_Head head = {.word = Lease, .flag = age > 0, .first = wait, .second = age};

	*talk = -1;
	if (!data_talk_is_possible() || (*talk = data_talk_open()) < 0) {
		return CLUSTER_AWAY;
	}
	struct before before = look(order->key);
	reprise_data->wait = (struct data_wait){ZSTR_VAL(order->key), ZSTR_LEN(order->key), 0};
	bool is_replied = data_talk_ask(*talk, head, &(struct talk_parts){.key = order->key}, wait + PATIENCE, &reply);
	reprise_data->wait.key = NULL;
	if (!is_replied) {
		*talk = -1;
		return CLUSTER_AWAY;
	}
	if (reply.head.word != Mine) {
		data_talk_close(*talk);
		*talk = -1;
	}
	return reply.head.word == Value ? take(order->key, &reply, &before, result) : answer_of(&reply);
}

static struct data_cache_Head put_head(const struct data_order *order, uint32_t flag, enum data_kind kind)
{
	return (struct data_cache_Head){
	    .word = Put,
	    .flag = flag,
	    .kind = (uint32_t)kind,
	    .cost = order->cost,
	    .first = order->ttl,
	    .second = order->stale,
	};
}

void data_cluster_computed(int talk, const struct data_order *order, HashTable *tags, zval *value)
{
	struct talk_reply reply;
	enum data_kind kind;
	zend_string *bytes = talk >= 0 && value ? data_encode(value, &kind) : NULL;

	if (bytes) {
		zend_string *names = names_of(tags);
		struct talk_parts parts = {.key = order->key, .tags = names, .value = bytes};
		if (data_talk_ask(talk, put_head(order, PUT_COMPUTED, kind), &parts, PATIENCE, &reply)) {
			data_talk_forget(&reply);
		}
		if (names) {
			zend_string_release(names);
		}
		zend_string_release(bytes);
	}
	data_talk_close(talk);
}

/* ---- changing ------------------------------------------------------------------------------------------------------
 */

/* Nobody was told: whoever can do that next says that everything has changed. */
static enum cluster_answer owe(void)
{
	if (reprise_data->is_attached && reprise_data->door) {
		data_cache_owe(&reprise_data->process);
	}
	return CLUSTER_AWAY;
}

static enum cluster_answer change(struct data_cache_Head head, const struct talk_parts *parts, uint64_t wait,
                                  struct talk_reply *reply)
{
	*reply = (struct talk_reply){0};
	if (!reprise_data->is_attached || reprise_data->door == 0) {
		return CLUSTER_AWAY;
	}
	if (!data_cache_talker_is_alive(&reprise_data->process, data_now())) {
		return owe();
	}
	enum cluster_answer answer = ask(head, parts, wait, reply);
	bool is_taken = reply->head.word != 0;
	data_talk_forget(reply);
	/* A reply says that the process has taken it, even if the store is away. */
	return answer == CLUSTER_AWAY && !is_taken ? owe() : answer;
}

enum cluster_answer data_cluster_store(const struct data_order *order, HashTable *tags, zval *value, bool only_new,
                                       zend_string *only_if)
{
	struct talk_reply reply;
	enum data_kind kind;

	if (!reprise_data->is_attached || reprise_data->door == 0) {
		return CLUSTER_AWAY;
	}
	if (!data_cache_talker_is_alive(&reprise_data->process, data_now())) {
		return owe();
	}
	zend_string *bytes = data_encode(value, &kind), *names = names_of(tags);
	if (!bytes) {
		if (names) {
			zend_string_release(names);
		}
		/* Here the same fails, or the value is too large for others: they must not find the old one. */
		return engine_has_exception() ? CLUSTER_AWAY : data_cluster_delete(order->key, NULL);
	}
	struct data_cache_Head head = put_head(order, only_new ? PUT_NEW : PUT_CHANGED, kind);
	head.word = only_if ? Swap : Put;
	struct talk_parts parts = {.key = order->key, .tags = names, .value = bytes, .old = only_if};
	head.flag = only_if ? 0 : head.flag;
	enum cluster_answer answer = change(head, &parts, 0, &reply);
	if (names) {
		zend_string_release(names);
	}
	zend_string_release(bytes);
	return answer;
}

enum cluster_answer data_cluster_increment(const struct data_order *order, zend_long by, zend_long *sum)
{
	struct talk_reply reply;
	struct data_cache_Head head = {.word = Add, .first = (uint64_t)by, .second = order->ttl};

	enum cluster_answer answer = change(head, &(struct talk_parts){.key = order->key}, 0, &reply);
	*sum = (zend_long)reply.head.first;
	return answer;
}

enum cluster_answer data_cluster_delete(zend_string *key, zend_string *only_if)
{
	struct talk_reply reply;
	struct data_cache_Head head = {.word = Tell, .flag = TELL_KEY, .first = TELL_MS};

	if (only_if) {
		head = (struct data_cache_Head){.word = Swap, .flag = 1};
	}
	return change(head, &(struct talk_parts){.key = key, .old = only_if}, TELL_MS, &reply);
}

void data_cluster_invalidate(HashTable *tags)
{
	struct talk_reply reply;
	struct data_cache_Head head = {.word = Tell, .flag = tags ? TELL_TAGS : TELL_ALL, .first = TELL_MS};
	zend_string *names = names_of(tags);

	(void)change(head, &(struct talk_parts){.tags = names}, TELL_MS, &reply);
	if (names) {
		zend_string_release(names);
	}
}

void data_cluster_purge(const zend_string *text)
{
	struct talk_reply reply;
	struct data_cache_Head head = {.word = Tell, .flag = TELL_PURGE, .first = TELL_MS};

	(void)change(head, &(struct talk_parts){.value = text}, TELL_MS, &reply);
}

/* ---- locks ---------------------------------------------------------------------------------------------------------
 */

static uint64_t hash_of(const zend_string *name)
{
	return zend_hash_func(ZSTR_VAL(name), ZSTR_LEN(name)) | 1;
}

enum cluster_answer data_cluster_lock(zend_string *name, uint64_t milliseconds)
{
	struct talk_reply reply;
	int talk;

	if (!data_talk_is_possible()) {
		return CLUSTER_AWAY;
	}
	if ((talk = data_talk_open()) < 0) {
		/* Too many at once. Another node may have it. */
		return CLUSTER_HELD;
	}
	struct data_cache_Head head = {.word = Lock, .first = milliseconds};
	if (!data_talk_ask(talk, head, &(struct talk_parts){.key = name}, PATIENCE, &reply)) {
		return CLUSTER_AWAY;
	}
	data_talk_forget(&reply);
	if (reply.head.word == Mine) {
		data_talk_names(talk, hash_of(name));
		return CLUSTER_MINE;
	}
	data_talk_close(talk);
	return answer_of(&reply);
}

void data_cluster_unlock(zend_string *name)
{
	int talk = data_talk_named(hash_of(name));

	if (talk >= 0) {
		data_talk_give_back(talk);
	}
}
