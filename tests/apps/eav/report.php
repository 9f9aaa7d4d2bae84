<?php
// A hundred customers of a shop with their default addresses, read as shops store them. ?page= the next hundred.
const ROWS = 100;

function connection(): PDO
{
    return new PDO(getenv('EAV_DSN'), getenv('EAV_USER'), getenv('EAV_PASSWORD'),
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC]);
}

/** @return array<string, int> the ids of an entity's attributes by their codes */
function attributes(PDO $db, string $entity): array
{
    $found = $db->prepare('SELECT attribute_code, attribute_id FROM eav_attribute WHERE entity_type = ?');
    $found->execute([$entity]);
    return array_map('intval', $found->fetchAll(PDO::FETCH_KEY_PAIR));
}

/** Customers and the ids of their default addresses, by four joins: a value and its address, twice. */
function customers(PDO $db, array $ids, int $page): array
{
    $found = $db->prepare('SELECT c.entity_id, c.email, c.created_at, billing.entity_id AS billing, shipping.entity_id AS shipping
        FROM customer_entity c
        LEFT JOIN customer_entity_int default_billing ON default_billing.entity_id = c.entity_id AND default_billing.attribute_id = ?
        LEFT JOIN customer_address_entity billing ON billing.entity_id = default_billing.value AND billing.parent_id = c.entity_id
        LEFT JOIN customer_entity_int default_shipping ON default_shipping.entity_id = c.entity_id AND default_shipping.attribute_id = ?
        LEFT JOIN customer_address_entity shipping ON shipping.entity_id = default_shipping.value AND shipping.parent_id = c.entity_id
        WHERE c.website_id = 1 ORDER BY c.entity_id LIMIT ' . ROWS . ' OFFSET ' . ROWS * ($page - 1));
    $found->execute([$ids['default_billing'], $ids['default_shipping']]);
    return $found->fetchAll();
}

/** @return array<int, array<string, string>> the values of these entities, by attribute */
function values(PDO $db, string $table, array $codes, array $entities): array
{
    $values = [];
    if ($entities) {
        $places = implode(',', array_fill(0, count($entities), '?'));
        $found = $db->prepare("SELECT entity_id, attribute_id, value FROM $table WHERE entity_id IN ($places)");
        $found->execute($entities);
        foreach ($found as $row) {
            $values[$row['entity_id']][$codes[$row['attribute_id']]] = $row['value'];
        }
    }
    return $values;
}

function address(?array $one): string
{
    return $one ? htmlspecialchars("$one[street], $one[country_id]-$one[postcode] $one[city]") : '–';
}

function report(): void
{
    $page = max(1, (int) ($_GET['page'] ?? 1));
    $db = connection();
    [$of_customer, $of_address] = [attributes($db, 'customer'), attributes($db, 'customer_address')];
    $customers = customers($db, $of_customer, $page);
    $names = values($db, 'customer_entity_varchar', array_flip($of_customer), array_column($customers, 'entity_id'));
    $used = array_unique(array_filter([...array_column($customers, 'billing'), ...array_column($customers, 'shipping')]));
    $addresses = values($db, 'customer_address_entity_varchar', array_flip($of_address), array_values($used));

    header('Content-Type: text/html; charset=utf-8');
    echo "<!doctype html>\n<title>Customers, page $page</title>\n<table>\n<tr><th>id<th>name<th>e-mail<th>since<th>billing<th>shipping\n";
    foreach ($customers as $one) {
        $name = $names[$one['entity_id']];
        echo "<tr><td>$one[entity_id]<td>", htmlspecialchars("$name[firstname] $name[lastname]"), '<td>', htmlspecialchars($one['email']),
            '<td>', substr($one['created_at'], 0, 10), '<td>', address($addresses[$one['billing']] ?? null),
            '<td>', address($addresses[$one['shipping']] ?? null), "\n";
    }
    echo "</table>\n";
}
