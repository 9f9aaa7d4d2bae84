<?php
// 2,000 customers with their addresses in the tables shops keep them in: a row per entity, and one per value of an attribute.
// The same rows every time. EAV_DSN, EAV_USER, EAV_PASSWORD; the database of EAV_DSN is made anew.
const CUSTOMERS = 2000;
const ATTRIBUTES = [ // code, type of the entity, of the value
    [1, 'firstname', 'customer', 'varchar'], [2, 'lastname', 'customer', 'varchar'],
    [3, 'default_billing', 'customer', 'int'], [4, 'default_shipping', 'customer', 'int'],
    [5, 'street', 'customer_address', 'varchar'], [6, 'postcode', 'customer_address', 'varchar'],
    [7, 'city', 'customer_address', 'varchar'], [8, 'country_id', 'customer_address', 'varchar'],
];
const FIRST = ['Ada', 'Bo', 'Clara', 'Dan', 'Emil', 'Frida', 'Gus', 'Hanna', 'Ida', 'Jon', 'Karin', 'Lars', 'Mia'];
const LAST = ['Adler', 'Berg', 'Costa', 'Dahl', 'Engel', 'Fuchs', 'Graf', 'Holm', 'Ivers', 'Jansen', "O'Neil"];
const STREETS = ['Mill Lane', 'Station Road', 'High Street', 'Park & Ride', 'Rosenweg', 'Rue du Port', 'Via Roma'];
const CITIES = [['Bergen', 'NO'], ['Gent', 'BE'], ['Graz', 'AT'], ['Köln', 'DE'], ['Lyon', 'FR'], ['Parma', 'IT'], ['Vigo', 'ES']];

function value_table(string $name, string $type): string
{
    return "CREATE TABLE $name (value_id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, attribute_id smallint unsigned NOT NULL,
        entity_id int unsigned NOT NULL, value $type, UNIQUE KEY (entity_id, attribute_id), KEY (attribute_id)) ENGINE=InnoDB";
}

function insert(PDO $db, string $table, string $columns, array $rows): void
{
    foreach (array_chunk($rows, 500) as $some) {
        $places = '(' . implode(',', array_fill(0, count($some[0]), '?')) . ')';
        $db->prepare("INSERT INTO $table ($columns) VALUES " . implode(',', array_fill(0, count($some), $places)))
            ->execute(array_merge(...$some));
    }
}

[$dsn, $name] = explode(';dbname=', preg_replace('/;charset=.*/', '', getenv('EAV_DSN')));
$db = new PDO("$dsn;charset=utf8mb4", getenv('EAV_USER'), getenv('EAV_PASSWORD'), [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$db->exec("DROP DATABASE IF EXISTS $name");
$db->exec("CREATE DATABASE $name CHARACTER SET utf8mb4");
$db->exec("USE $name");
$db->exec('CREATE TABLE eav_attribute (attribute_id smallint unsigned NOT NULL PRIMARY KEY, attribute_code varchar(60) NOT NULL,
    entity_type varchar(50) NOT NULL, backend_type varchar(8) NOT NULL, UNIQUE KEY (entity_type, attribute_code)) ENGINE=InnoDB');
$db->exec('CREATE TABLE customer_entity (entity_id int unsigned NOT NULL PRIMARY KEY, website_id smallint unsigned NOT NULL,
    group_id smallint unsigned NOT NULL, email varchar(255) NOT NULL, created_at datetime NOT NULL,
    UNIQUE KEY (email, website_id), KEY (website_id)) ENGINE=InnoDB');
$db->exec('CREATE TABLE customer_address_entity (entity_id int unsigned NOT NULL PRIMARY KEY, parent_id int unsigned NOT NULL,
    KEY (parent_id)) ENGINE=InnoDB');
$db->exec(value_table('customer_entity_int', 'int'));
$db->exec(value_table('customer_entity_varchar', 'varchar(255)'));
$db->exec(value_table('customer_address_entity_varchar', 'varchar(255)'));

$customers = $addresses = $ints = $names = $values = [];
mt_srand(20240229);
for ($id = 1; $id <= CUSTOMERS; $id++) {
    [$first, $last] = [FIRST[mt_rand(0, count(FIRST) - 1)], LAST[mt_rand(0, count(LAST) - 1)]];
    $customers[] = [$id, $id % 10 ? 1 : 2, mt_rand(1, 3), "customer$id@shop.example", gmdate('Y-m-d H:i:s', 1600000000 + $id * 3600)];
    array_push($names, [1, $id, $first], [2, $id, $last]);
    $own = [];
    for ($i = mt_rand(1, 3); $i > 0; $i--) {
        $own[] = $address = count($addresses) + 1;
        [$city, $country] = CITIES[mt_rand(0, count(CITIES) - 1)];
        $addresses[] = [$address, $id];
        array_push($values, [5, $address, STREETS[mt_rand(0, count(STREETS) - 1)] . ' ' . mt_rand(1, 199)],
            [6, $address, (string) mt_rand(10000, 99999)], [7, $address, $city], [8, $address, $country]);
    }
    $ints[] = [3, $id, $own[0]];
    if ($id % 17) { // some have no default shipping address
        $ints[] = [4, $id, end($own)];
    }
}
$db->beginTransaction();
insert($db, 'eav_attribute', 'attribute_id, attribute_code, entity_type, backend_type', ATTRIBUTES);
insert($db, 'customer_entity', 'entity_id, website_id, group_id, email, created_at', $customers);
insert($db, 'customer_address_entity', 'entity_id, parent_id', $addresses);
insert($db, 'customer_entity_int', 'attribute_id, entity_id, value', $ints);
insert($db, 'customer_entity_varchar', 'attribute_id, entity_id, value', $names);
insert($db, 'customer_address_entity_varchar', 'attribute_id, entity_id, value', $values);
$db->commit();
$db->query('ANALYZE TABLE customer_entity, customer_address_entity, customer_entity_int, customer_entity_varchar,
    customer_address_entity_varchar')->fetchAll();
