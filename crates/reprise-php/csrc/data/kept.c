/*
 * Strings that are kept in the store of all nodes, and nowhere else: sessions. No eviction here and no change of others
 * concerns them. Without the store each function says so.
 */
#define _GNU_SOURCE
#include <php.h>

#include "arguments.h"
#include "talk.h"

/* Milliseconds for a reply. */
#define PATIENCE 3000
enum { GET_KEPT = 1, PUT_KEPT = 3, REMOVE_KEPT = 4 };

/* False: the store cannot be asked. */
static bool ask(struct data_cache_Head head, const zend_string *key, const zend_string *value, struct talk_reply *reply)
{
	int talk = data_talk_is_possible() ? data_talk_open() : -1;

	if (talk < 0 || !data_talk_ask(talk, head, &(struct talk_parts){.key = key, .value = value}, PATIENCE, reply)) {
		return false;
	}
	data_talk_close(talk);
	return reply->head.word != Away;
}

ZEND_FUNCTION(reprise_store_read)
{
	zend_string *key;
	struct talk_reply reply;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1)) {
		RETURN_THROWS();
	}
	if (!ask((struct data_cache_Head){.word = Get, .flag = GET_KEPT}, key, NULL, &reply)) {
		RETURN_FALSE;
	}
	if (reply.head.word == Value) {
		if (reply.value) {
			RETVAL_STR_COPY(reply.value);
		} else {
			RETVAL_EMPTY_STRING();
		}
	}
	data_talk_forget(&reply);
}

ZEND_FUNCTION(reprise_store_write)
{
	zend_string *key, *value;
	zend_long ttl;
	uint64_t milliseconds;
	struct talk_reply reply;

	ZEND_PARSE_PARAMETERS_START(3, 3)
	Z_PARAM_STR(key)
	Z_PARAM_STR(value)
	Z_PARAM_LONG(ttl)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1) || !data_seconds(ttl, 3, &milliseconds)) {
		RETURN_THROWS();
	}
	struct data_cache_Head head = {.word = Put, .flag = PUT_KEPT, .first = milliseconds};
	bool is_asked = ZSTR_LEN(value) <= data_cache_LARGEST_VALUE && ask(head, key, value, &reply);
	if (is_asked) {
		data_talk_forget(&reply);
	}
	RETURN_BOOL(is_asked && reply.head.word == Done);
}

ZEND_FUNCTION(reprise_store_remove)
{
	zend_string *key;
	struct talk_reply reply;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1)) {
		RETURN_THROWS();
	}
	bool is_asked = ask((struct data_cache_Head){.word = Put, .flag = REMOVE_KEPT}, key, NULL, &reply);
	if (is_asked) {
		data_talk_forget(&reply);
	}
	RETURN_BOOL(is_asked && reply.head.word == Done);
}
