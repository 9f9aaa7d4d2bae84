<?php
// What the installer's LocalSettings.php includes last.

// Fixed, so that two servers of one installation know each other's cookies and hashes.
$wgSecretKey = str_repeat('5eed', 16);
$wgAuthenticationTokenVersion = '1';

// The site answers as it was asked; links name no host.
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;

// As a site with APCu has it. Sessions and parsed pages are in the database.
$wgMainCacheType = CACHE_ACCEL;
$wgMessageCacheType = CACHE_ACCEL;
$wgParserCacheType = CACHE_DB;
$wgSessionCacheType = CACHE_DB;

// The texts are compiled at installation, as a deployment has it.
$wgCacheDirectory = '@APP@/cache';
$wgLocalisationCacheConf['store'] = 'array';
$wgLocalisationCacheConf['manualRecache'] = true;

// A page is as old as its last edit: copies of the site have settings of their own, written at different times.
$wgInvalidateCacheOnLocalSettingsChange = false;

// Jobs run from the command line; pages tell nothing of how long they took.
$wgJobRunRate = 0;
$wgEnableParserLimitReporting = false;
$wgPingback = false;
$wgEnableEmail = false;
$wgEnableUploads = true;
$wgFileExtensions = ['png', 'gif', 'txt'];
$wgShowExceptionDetails = false;
$wgPasswordAttemptThrottle = [];
$wgRateLimits = [];
