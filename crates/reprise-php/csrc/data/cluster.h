/* What other nodes have, and what they are told. Without a store, or while it is away, every function says so at once.
 */
#ifndef REPRISE_DATA_CLUSTER_H
#define REPRISE_DATA_CLUSTER_H

#include "values.h"

enum cluster_answer {
	CLUSTER_AWAY,  /* the store cannot be asked: this node is alone */
	CLUSTER_NONE,  /* there is no value, or the condition does not hold */
	CLUSTER_VALUE, /* it is in the result, and stored here */
	CLUSTER_MINE,  /* the right to compute it for all nodes, or the lock */
	CLUSTER_HELD,  /* another has that */
	CLUSTER_DONE
};

/* The value of a key, if it need not be renewed. */
enum cluster_answer data_cluster_fetch(zend_string *key, zval *result);

/* Before a value is computed with this order: the value of another node, who computes it within so many milliseconds,
 * or the right to do so, which ends with the conversation in `talk`. `age`: milliseconds since the value that is to be
 * renewed was stored; 0: there is none. */
enum cluster_answer data_cluster_turn(const struct data_order *order, uint64_t wait, uint64_t age, int *talk,
                                      zval *result);
/* The value that was computed with that right; NULL: none was. */
void data_cluster_computed(int talk, const struct data_order *order, HashTable *tags, zval *value);

/* Before it is stored here. */
enum cluster_answer data_cluster_store(const struct data_order *order, HashTable *tags, zval *value, bool only_new,
                                       zend_string *only_if);
enum cluster_answer data_cluster_increment(const struct data_order *order, zend_long by, zend_long *sum);

/* Before it is removed here. CLUSTER_NONE: with `only_if` something else is there. */
enum cluster_answer data_cluster_delete(zend_string *key, zend_string *only_if);
/* Tags; NULL: everything. */
void data_cluster_invalidate(HashTable *tags);
/* Stored responses: the text that the front takes. */
void data_cluster_purge(const zend_string *text);

enum cluster_answer data_cluster_lock(zend_string *name, uint64_t milliseconds);
void data_cluster_unlock(zend_string *name);

#endif
